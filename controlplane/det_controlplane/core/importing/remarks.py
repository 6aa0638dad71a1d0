"""Remarks of an import: rows that do not move, or that move with a change, with the reason."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

_LISTED = 20  # rows of equal remarks


@dataclass(slots=True)
class _Rows:
    listed: list[str] = field(default_factory=list)
    count: int = 0


@dataclass(slots=True)
class Remarks:
    """Collects the remarks of an import. Equal texts share a line, because there may be thousands."""

    _rows: dict[str, _Rows] = field(default_factory=dict)

    @classmethod
    def from_json(cls, stored: Iterable[Mapping[str, Any]]) -> "Remarks":
        return cls({each["text"]: _Rows(list(each["rows"]), each["count"]) for each in stored})

    def to_json(self) -> list[dict[str, Any]]:
        return [
            {"text": text, "rows": rows.listed, "count": rows.count}
            for text, rows in self._rows.items()
        ]

    def add(self, subject: str, text: str) -> None:
        """Add a remark about a row, such as "experiment 17", or '' for a remark about the whole cluster."""
        rows = self._rows.setdefault(text, _Rows())
        rows.count += 1
        if len(rows.listed) < _LISTED:
            rows.listed.append(subject)

    def lines(self) -> list[str]:
        """Return one line for each text, with its first rows and the number of further rows."""
        lines = []
        for text, rows in self._rows.items():
            more = rows.count - len(rows.listed)
            others = f" and {more} more" if more else ""
            subject = f"{', '.join(rows.listed)}{others}"
            lines.append(f"{subject}: {text}" if subject else text)
        return lines
