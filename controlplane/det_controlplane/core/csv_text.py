"""Write CSV that spreadsheets show and do not execute."""

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

_FORMULA = ("=", "+", "-", "@", "\t", "\n")  # what begins with one is a formula to some spreadsheet


def csv_text(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([_shown(value) for value in row] for row in rows)
    return out.getvalue()


def _shown(value: Any) -> Any:
    """Return a value whose text is no formula to a spreadsheet: an apostrophe before it makes it a text there."""
    if not isinstance(value, str):
        return value
    text = value.replace("\r\n", "\n").replace("\r", "\n")  # a row ends at one that is not quoted
    return f"'{text}" if text.startswith(_FORMULA) and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text == text.strip()
