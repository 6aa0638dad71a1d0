"""Bound the documents that programs attach to trials: tables have a column for each value in them."""

import sys
from collections.abc import Iterator, Mapping
from typing import Any

MOST_VALUES, LONGEST_NAME = 10_000, 1000
_LARGEST = int(sys.float_info.max)


def fault_of(document: Mapping[str, Any]) -> str | None:
    """Say why tables could not show a document; None where they can."""
    for count, (name, value) in enumerate(_values(document), 1):
        if count > MOST_VALUES:
            return f"has more than {MOST_VALUES} values"
        if len(name) > LONGEST_NAME:
            return f"has a name of more than {LONGEST_NAME} characters, with what it lies in: {name[:40]}…"
        if isinstance(value, int) and not -_LARGEST <= value <= _LARGEST:
            return f"has an integer beyond the range of a float (about 1.8e308): {name}"
    return None


def _values(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield each value that is no object, and each name that is too long, before what lies below."""
    below = [("", document)]
    while below:
        path, inner = below.pop()
        for key, value in inner.items():
            name = f"{path}.{key}" if path else key
            if isinstance(value, Mapping) and len(name) <= LONGEST_NAME:
                below.append((name, value))
            else:
                yield name, value
