"""Answers for assistants: JSON that is at most 2,000 tokens long, with a cursor for the rest."""

import json
from collections.abc import Sequence
from typing import Any

# 2,000 tokens at 2.5 characters each, which is fewer than JSON with numbers has.
MOST_CHARACTERS = 5000
_LONGEST_TEXT = 600
_LONGEST_LINE = 1000


def written(answer: Any) -> str:
    """Return an answer as compact JSON. Long texts and lists of a larger answer are cut."""
    answer = _compact(answer)
    for longest in (10**9, _LONGEST_TEXT, 200, 60):
        text = _dumps(_cut(answer, longest) if longest < 10**9 else answer)
        if len(text) <= MOST_CHARACTERS:
            return text
    return _dumps({"cut": True, "begin": text[: MOST_CHARACTERS // 2]})


def page(key: str, rows: Sequence[Any], offset: int, total: int, **more: Any) -> dict[str, Any]:
    """Return as many rows as fit. `next_cursor` is the cursor of the rest, and missing after the last row."""
    rows = [_cut(_compact(row), _LONGEST_LINE) for row in rows]
    taken: list[Any] = []
    room = MOST_CHARACTERS - len(_dumps({key: [], "total": total, "next_cursor": "0" * 12, **more}))
    for row in rows:
        room -= len(_dumps(row)) + 1
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
