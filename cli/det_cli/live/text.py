"""Styled lines for a terminal, with a bounded width and without control characters."""

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

_CODES = {"bold": "1", "dim": "2", "bad": "31", "good": "32", "warn": "33", "busy": "36"}
_STATE_STYLES = {
    "COMPLETED": "good", "RUNNING": "busy", "ERROR": "bad", "CANCELED": "warn", "QUEUED": "warn", "WAITING": "warn",
    "PAUSED": "warn", "REGISTERED": "good", "ENABLED": "good", "DRAINING": "warn", "FAILED": "bad",
    "DISABLED": "warn", "LOST": "bad",
}  # fmt: skip
# ASCII replacements for terminals without Unicode.
_ASCII = str.maketrans("▁▂▃▄▅▆▇█░·…–×↑↓→", "._,-=+*#..~-x^v>")


@dataclass(frozen=True, slots=True)
class Segment:
    """Text in one style. Control characters are escaped, so a terminal only displays the text."""

    text: str
    style: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", clean(self.text))


Line = tuple[Segment, ...]


def line(*parts: "str | Segment") -> Line:
    return tuple(Segment(p) if isinstance(p, str) else p for p in parts)


def state(text: str) -> Segment:
    """Return the name of a state in its colour."""
    return Segment(text, _STATE_STYLES.get(text, ""))


def clean(text: str) -> str:
    """Escape control and formatting characters, because users choose names freely."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escape_character(c) for c in text)


@lru_cache(maxsize=4096)
def _escape_character(character: str) -> str:
    if unicodedata.category(character)[0] == "C" or character in "\u2028\u2029":
        code = ord(character)
        return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
    return character


def width(text: str) -> int:
    """Return the number of terminal columns of a text."""
    return len(text) if text.isascii() else sum(map(_columns, text))


@lru_cache(maxsize=4096)
def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut(text: str, room: int) -> str:
    """Shorten text to `room` columns with an ellipsis."""
    if width(text) <= room:
        return text
    characters, used = [], 0
    for character in text:
        used += _columns(character)
        if used > room - 1:
            break
        characters.append(character)
    return "".join(characters) + "…" if room > 0 else ""


def pad(text: str, size: int, *, right: bool = False) -> str:
    text = cut(text, size)
    blanks = " " * (size - width(text))
    return blanks + text if right else text + blanks


def size_of(parts: Line) -> int:
    return sum(width(part.text) for part in parts)


def fitted(parts: Line, room: int) -> Line:
    """Shorten a line to `room` columns."""
    if size_of(parts) <= room:
        return parts
    out: list[Segment] = []
    for part in parts:
        out.append(Segment(cut(part.text, room), part.style))
        room -= width(part.text)
        if room <= 0:
            break
    return tuple(out)


def apart(left: Line, right: Line, room: int) -> Line:
    """Align one part left and one part right. Omit the right part if both do not fit."""
    spare = room - size_of(left) - size_of(right)
    if spare < 2:
        return fitted(left, room)
    return (*left, Segment(" " * spare), *right)


def wrapped(text: str, room: int, indent: str = "") -> list[str]:
    """Wrap text at spaces into lines of at most `room` columns."""
    lines, current = [], indent
    for word in clean(text).split():
        if current.strip() and width(current) + 1 + width(word) > room:
            lines.append(current)
            current = indent
        current += word if current == indent else f" {word}"
    return [cut(text, room) for text in [*lines, current]]


def plain(parts: Line) -> str:
    return "".join(part.text for part in parts).rstrip()


def styled(parts: Line, *, colour: bool) -> str:
    """Return a line with escape sequences for its colours."""
    if not colour:
        return plain(parts)
    return "".join(_paint_segment(part) for part in parts)


def _paint_segment(part: Segment) -> str:
    code = _CODES.get(part.style)
    return f"\x1b[{code}m{part.text}\x1b[0m" if code and part.text else part.text


def encodable(text: str, encoding: "str | None") -> str:
    """Replace characters that the encoding does not support. Charts use similar ASCII characters."""
    try:
        text.encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return text.translate(_ASCII).encode("ascii", "replace").decode()
    return text


@dataclass(frozen=True, slots=True)
class Column:
    """Describes a column with a width between `least` and `most`. A high `drop` is omitted first."""

    title: str
    get: Callable[[Any], "str | Segment"]
    least: int = 4
    most: int = 40
    drop: int = 0
    right: bool = False


def table(columns: Sequence[Column], items: Iterable[Any], room: int) -> list[Line]:
    """Return a table with as many columns as fit. Empty columns are omitted."""
    items = list(items)
    cells = [[_segment(column.get(item)) for item in items] for column in columns]
    filled = [i for i, column in enumerate(cells) if any(cell.text for cell in column)]
    wide = {i: _widest(columns[i], cells[i]) for i in filled}
    least = {i: min(wide[i], max(columns[i].least, 1)) for i in filled}
    shown = list(filled)
    while len(shown) > 1 and sum(least[i] for i in shown) + 2 * (len(shown) - 1) > room:
        shown.remove(max(shown, key=lambda i: (columns[i].drop, i)))
    spare = room - sum(least[i] for i in shown) - 2 * (len(shown) - 1)
    sizes = {}
    for i in sorted(shown, key=lambda i: columns[i].drop):
        more = max(min(wide[i] - least[i], spare), 0)
        sizes[i] = least[i] + more
        spare -= more
    heading = [Segment(columns[i].title, "dim") for i in shown]
    rows = [heading, *([cells[i][n] for i in shown] for n in range(len(items)))]
    ordered = [(sizes[i], columns[i].right) for i in shown]
    return [fitted(_row(row, ordered), room) for row in rows] if items else []


def _segment(value: "str | Segment") -> Segment:
    return value if isinstance(value, Segment) else Segment(value)


def _widest(column: Column, cells: Sequence[Segment]) -> int:
    return min(column.most, max(width(column.title), *(width(cell.text) for cell in cells)))


def _row(cells: Sequence[Segment], sizes: Sequence[tuple[int, bool]]) -> Line:
    out: list[Segment] = []
    for cell, (size, right) in zip(cells, sizes, strict=True):
        if out:
            out.append(Segment("  "))
        out.append(Segment(pad(cell.text, size, right=right), cell.style))
    return tuple(out)
