"""Answers for assistants: JSON with at most 2,000 tokens, and a cursor for the rest."""

import json
import re
from collections.abc import Sequence
from typing import Any

MOST_TOKENS = 2000
# The pieces in which tokenizers split a text before they look for known words.
_PIECE = re.compile(
    r"(?P<random>[A-Za-z0-9+/]{24,})|(?P<word>[A-Z]?[a-z]+|[A-Z]+)|(?P<digits>[0-9]{1,3})"
    r"|(?P<blank> )|(?P<space>\s+)|(?P<marks>[!-/:-@\[-`{-~]+)|(?P<other>[^\x00-\x7f])|(?P<rest>.)",
    re.DOTALL,
)
_LONGEST_TEXT = 600
_LONGEST_LINE = 1000


def tokens(text: str) -> int:
    """Return a number of tokens that a text does not exceed, for texts as clusters have them.

    The vocabularies of tokenizers have megabytes, and each model has another one, so the pieces are counted. The
    factors were measured with cl100k_base and o200k_base (docs/adr/0057-tools-for-assistants.md)."""
    return sum(_tokens_of(match) for match in _PIECE.finditer(text))


def _tokens_of(match: "re.Match[str]") -> int:
    kind, length = match.lastgroup, len(match[0])
    if kind == "random":  # keys and hashes
        return -(-length * 3 // 4)
    if kind == "word":
        return -(-length // 3)
    if kind == "marks":
        return -(-length // 2)
    if kind == "other":
        return len(match[0].encode()) - 1
    return 0 if kind == "blank" else 1  # a blank belongs to the next word


def written(answer: Any) -> str:
    """Return an answer as compact JSON. Long texts and lists of a larger answer are cut."""
    answer = _compact(answer)
    for longest in (10**9, _LONGEST_TEXT, 200, 60):
        text = _dumps(_cut(answer, longest) if longest < 10**9 else answer)
        if tokens(text) <= MOST_TOKENS:
            return text
    begin = text[:MOST_TOKENS]
    while tokens(begin) > MOST_TOKENS // 2:  # quotation marks in it need more tokens in the answer
        begin = begin[: len(begin) * 3 // 4]
    return _dumps({"cut": True, "begin": begin})


def page(key: str, rows: Sequence[Any], offset: int, total: int, **more: Any) -> dict[str, Any]:
    """Return as many rows as fit. `next_cursor` is the cursor of the rest, and missing after the last row."""
    rows = [_cut(_compact(row), _LONGEST_LINE) for row in rows]
    taken: list[Any] = []
    frame = {key: [], "total": total, "next_cursor": "0" * 12, **_compact(more)}
    room = MOST_TOKENS - tokens(_dumps(frame))
    for row in rows:
        room -= tokens(_dumps(row)) + 1
        if room < 0 and taken:
            break
        taken.append(row)
    answer = {key: taken, "total": total, **more}
    end = offset + len(taken)
    if end < total and taken:
        answer["next_cursor"] = str(end)
    return answer


def without_empty(row: dict[str, Any]) -> dict[str, Any]:
    """Return the fields with a value, because empty fields cost tokens."""
    return {key: value for key, value in row.items() if value not in (None, "", [], {})}


def _compact(value: Any) -> Any:
    """Return a value without null fields, and with numbers of six digits."""
    if isinstance(value, dict):
        return {key: _compact(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_compact(item) for item in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _cut(value: Any, longest: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= longest else f"{value[:longest]}… ({len(value)} characters)"
    if isinstance(value, dict):
        return {key: _cut(item, longest) for key, item in value.items()}
    if isinstance(value, list):
        most = max(3, longest // 20)
        more = [f"… ({len(value) - most} more)"] if len(value) > most else []
        return [_cut(item, longest) for item in value[:most]] + more
    return value


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
