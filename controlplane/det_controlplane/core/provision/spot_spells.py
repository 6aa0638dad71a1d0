"""Describe how long spot offers stay available, and learn it from observations.

An offer has spells: it is available for a time, then unavailable for a time. In public traces of 2023 the end of a
spell becomes less probable with its age, by nearly the same law in all zones: `0.75 / (0.5 h + age)` an hour. An offer
differs from the law by a factor for each kind of spell. The factors are learned.

Times are hours.
"""

import math
from dataclasses import dataclass, replace

_SCALE = 0.75
_SHIFT_H = 0.5
# The law counts as this many observed ends, so that a few observations do not move a factor far.
_PRIOR_ENDS = 3.0
_MOST_FACTOR = 8.0


def expected_ends(from_age_h: float, hours: float) -> float:
    """Return the expected number of ends of a spell, by the law, in some hours after an age."""
    return _SCALE * math.log((_SHIFT_H + from_age_h + hours) / (_SHIFT_H + from_age_h))


def end_probability(from_age_h: float, hours: float, factor: float) -> float:
    return 1.0 - math.exp(-factor * expected_ends(from_age_h, hours))


def hours_until_end(uniform: float, factor: float) -> float:
    """Return the length of a new spell for a number that is drawn evenly between 0 and 1."""
    return _SHIFT_H * (math.pow(1.0 - uniform, -1 / (_SCALE * factor)) - 1.0)


@dataclass(frozen=True, slots=True)
class EndCounts:
    """Count the ends of spells of one kind, and how many the law expected in the observed time."""

    seen: float = 0.0
    expected: float = 0.0

    def after(self, age_h: float, hours: float, ended: bool) -> "EndCounts":
        return EndCounts(self.seen + ended, self.expected + expected_ends(age_h, hours))

    def factor(self) -> float:
        """Return how much more often spells end than the law says."""
        factor = (self.seen + _PRIOR_ENDS) / (self.expected + _PRIOR_ENDS)
        return min(_MOST_FACTOR, max(1 / _MOST_FACTOR, factor))


@dataclass(frozen=True, slots=True)
class SpotOffer:
    """A spot offer with its current spell and the ends of its earlier spells."""

    name: str
    price: float  # as a part of the price on demand
    is_available: bool
    age_h: float = 0.0  # of the current spell
    available: EndCounts = EndCounts()
    unavailable: EndCounts = EndCounts()

    def after(self, hours: float, is_available: bool) -> "SpotOffer":
        """Return the offer after some hours, with the state at their end."""
        ended = is_available != self.is_available
        available, unavailable = self.available, self.unavailable
        if self.is_available:
            available = available.after(self.age_h, hours, ended)
        else:
            unavailable = unavailable.after(self.age_h, hours, ended)
        age = 0.0 if ended else self.age_h + hours
        return replace(
            self,
            is_available=is_available,
            age_h=age,
            available=available,
            unavailable=unavailable,
        )

    def loss_factor(self) -> float:
        return self.available.factor()

    def return_factor(self) -> float:
        return self.unavailable.factor()

    def loss_probability(self, hours: float) -> float:
        """Return the probability that an available offer ends within some hours."""
        return end_probability(self.age_h, hours, self.loss_factor())
