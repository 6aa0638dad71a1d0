"""The reasons for which a search ends before its last trial (`searcher.stop_when`)."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any


class EndReason(Enum):
    GAIN_BELOW = "GAIN_BELOW"
    COST_ABOVE = "COST_ABOVE"


@dataclass(frozen=True, slots=True)
class Ending:
    """The value that passed its limit and so ended a search, in units of the metric or in US dollars."""

    reason: EndReason
    value: float
    limit: float

    def sentence(self, metric: str) -> str:
        if self.reason is EndReason.COST_ABOVE:
            cost = f"${self.value:.2f} exceeded stop_when.or_cost_above (${self.limit:.2f})"
            return f"the search ended early: its cost of {cost}"
        gain = f"{self.value:.3g} is below stop_when.expected_gain_below ({self.limit:g})"
        return f"the search ended early: the expected gain in {metric} by another full training of {gain}"

    def to_json(self) -> list[Any]:
        return [self.reason.value, self.value, self.limit]


def ending_from_json(value: Sequence[Any] | None) -> Ending | None:
    return None if value is None else Ending(EndReason(value[0]), *value[1:])
