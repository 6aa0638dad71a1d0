"""Remarks of an import: rows that do not move, or that move with a change, with the reason."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Remark:
    subject: str  # the row, such as "experiment 17"
    text: str


@dataclass(slots=True)
class Remarks:
    """Collects the remarks of an import. Equal texts are counted, because there may be thousands."""

    _first: dict[str, str] = field(default_factory=dict)
    _counts: Counter[str] = field(default_factory=Counter)

    def add(self, subject: str, text: str) -> None:
        self._first.setdefault(text, subject)
        self._counts[text] += 1

    def lines(self) -> list[str]:
        """Return one line for each text, with its first row and the number of further rows."""
        lines = []
        for text, subject in self._first.items():
            more = self._counts[text] - 1
            others = f" and {more} more" if more else ""
            lines.append(f"{subject}{others}: {text}")
        return lines
