"""Limit the documents and labels that users and programs attach, and the values of a JSON text.

Tables and filters show each value of a document. A JSON value of three bytes may take hundreds of bytes of memory.
"""

import json
import sys
from collections.abc import Collection, Iterator, Mapping
from typing import Any

MOST_VALUES, LONGEST_NAME = 10_000, 1000
MOST_BYTES = 256 * 1024  # as JSON; listings return the document with each trial
MOST_LABELS, LONGEST_LABEL = 100, 200
MOST_LISTED_LABELS = 1_000  # the most used labels
_LARGEST = int(sys.float_info.max)


def fault_of(document: Mapping[str, Any]) -> str | None:
    """Return the reason why tables cannot show a document, or None if they can."""
    for count, (name, value) in enumerate(_values(document), 1):
        if count > MOST_VALUES:
            return f"has more than {MOST_VALUES} values"
        if len(name) > LONGEST_NAME:
            return f"has a name of more than {LONGEST_NAME} characters, with what it lies in: {name[:40]}…"
        if isinstance(value, int) and not -_LARGEST <= value <= _LARGEST:
            return f"has an integer beyond the range of a float (about 1.8e308): {name}"
    size = len(json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    if size > MOST_BYTES:
        return (
            f"has {size:,} bytes of JSON, {MOST_BYTES:,} are the most: keep large values in files"
        )
    return None


def fault_of_labels(labels: Collection[str]) -> str | None:
    """Return the reason why the labels are not allowed, or None if they are."""
    if len(labels) > MOST_LABELS:
        return f"there are {len(labels)} labels, {MOST_LABELS} are the most"
    longest = max(labels, key=len, default="")
    if len(longest) > LONGEST_LABEL:
        return (
            f"a label has at most {LONGEST_LABEL} characters, not {len(longest)}: {longest[:40]}…"
        )
    return None


def _values(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield each value that is not an object. An object with too long a name is yielded too, before its members."""
    pending = [("", document)]
    while pending:
        path, inner = pending.pop()
        for key, value in inner.items():
            name = f"{path}.{key}" if path else key
            if isinstance(value, Mapping) and len(name) <= LONGEST_NAME:
                pending.append((name, value))
            else:
                yield name, value


MOST_JSON_VALUES = 500_000
_FEW_BYTES = 1024 * 1024  # a shorter text cannot have more values than the limit
_NO_MARKS = bytes(set(range(256)) - set(b'",[{'))


def has_too_many_values(raw: bytes) -> bool:
    return len(raw) > _FEW_BYTES and _values_of_json(raw) > MOST_JSON_VALUES


def _values_of_json(raw: bytes) -> int:
    """Return the approximate number of values, or 0 if it is within the limit."""
    if raw.count(b",") + raw.count(b"[") + raw.count(b"{") <= MOST_JSON_VALUES:
        return 0
    # Log lines in strings contain many of these marks. Count only the marks outside of strings.
    marks = raw.replace(rb"\\", b"").replace(rb"\"", b"").translate(None, delete=_NO_MARKS)
    quotes = marks.count(b'"')
    if quotes > 4 * MOST_JSON_VALUES:
        return quotes // 2
    return len(b"".join(marks.split(b'"')[::2]))
