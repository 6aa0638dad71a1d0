"""The vocabulary for bad input: a list of problems, each with the path of its field."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Problem:
    path: str  # "searcher.max_trials"; empty for the whole document
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class InvalidConfig(Exception):
    """A configuration or request with all of its problems."""

    def __init__(
        self, problems: Sequence[Problem], *, what: str = "experiment configuration"
    ) -> None:
        self.problems = tuple(problems)
        before = " " if len(self.problems) == 1 else "\n  - "
        super().__init__(f"invalid {what}:" + "".join(f"{before}{p}" for p in self.problems))


def shown(value: Any) -> str:
    """Return the value for a message, shortened to 40 characters."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
