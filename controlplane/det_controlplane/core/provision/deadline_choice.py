"""Choose how to run work with a deadline: wait, on a spot machine, or on demand."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from .deadline_values import SLACK_LEVELS, STEPS, Grid, Odds, Table, cost_table, phase_of
from .spot_spells import SpotOffer, end_probability, expected_ends

# Factors and steps are rounded to powers, so that decisions share tables.
_FACTOR_BASE = 1.4
_STEP_BASE = 1.25
# With other offers at hand a lost machine is nearly always replaced at once.
_ANOTHER_AT_HAND = 0.9
_ANOTHER_LATER = 0.5


class Way(str, Enum):
    """The ways to run the work until the next decision."""

    WAIT = "WAIT"
    SPOT = "SPOT"
    ON_DEMAND = "ON_DEMAND"


class Place(NamedTuple):
    """The machine that runs the work, and the part of its restart that is still to come."""

    way: Way
    offer: str = ""
    restart_left_h: float = 0.0


NOWHERE = Place(Way.WAIT)


@dataclass(frozen=True, slots=True)
class DeadlineWork:
    """Work with a deadline, at a decision. Times are hours."""

    left_h: float  # until the deadline
    work_h: float  # that remains, without restarts
    restart_h: float  # from the choice of a machine to the first new step on it
    decision_h: float  # until the next decision
    place: Place = NOWHERE

    @property
    def slack_h(self) -> float:
        return self.left_h - self.work_h


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen way, with the expected cost of each possible way in hours on demand."""

    way: Way
    offer: str
    costs: dict[Way, float]
    is_last_chance: bool = False  # any other way could miss the deadline


def grid_of(work: DeadlineWork) -> Grid:
    """Return the grid of the value table for the time left and the slack of some work."""
    return Grid(
        _rounded_up(work.left_h / (STEPS - 1)),
        _rounded_up(max(work.slack_h, work.restart_h) / (SLACK_LEVELS - 1)),
        work.restart_h,
    )


def choose(work: DeadlineWork, offers: Sequence[SpotOffer], grid: Grid | None = None) -> Choice:
    """Return the cheapest way that still lets the work finish on demand before its deadline.

    A forecast gives one grid for all its choices, so that they share the value tables.
    """
    best = _best_offer(work, offers)
    possible = {Way.ON_DEMAND}
    if best is not None and _may_lose(work, _restart_left(work, Way.SPOT, best.name)):
        possible.add(Way.SPOT)
    if offers and best is None and work.slack_h - work.decision_h >= work.restart_h:
        possible.add(Way.WAIT)
    if possible == {Way.ON_DEMAND}:
        return Choice(Way.ON_DEMAND, "", {}, is_last_chance=True)
    costs = _Costs(work, offers, best, grid or grid_of(work))
    by_way = {way: costs.of(way) for way in possible}
    way = min(by_way, key=lambda one: (by_way[one], one is not work.place.way, one.value))
    return Choice(way, best.name if way is Way.SPOT and best else "", by_way)


def _may_lose(work: DeadlineWork, restart_left_h: float) -> bool:
    """Return whether the work can finish on demand if a spot machine is lost before the next decision."""
    done = max(0.0, work.decision_h - restart_left_h)
    return work.left_h - work.decision_h >= work.work_h - done + work.restart_h - 1e-9


def _restart_left(work: DeadlineWork, way: Way, offer: str = "") -> float:
    stays = work.place.way is way and work.place.offer == offer
    return work.place.restart_left_h if stays else work.restart_h


def _best_offer(work: DeadlineWork, offers: Sequence[SpotOffer]) -> "SpotOffer | None":
    """Return the offer that runs the work, or else the available one with the least expected cost of a while."""
    available = [offer for offer in offers if offer.is_available]
    for offer in available:
        if work.place.way is Way.SPOT and offer.name == work.place.offer:
            return offer
    return min(available, key=lambda offer: _cost_of_while(work, offer), default=None)


def _cost_of_while(work: DeadlineWork, offer: SpotOffer) -> tuple[float, str]:
    """Return the price of running until the expected loss, a loss included, for each hour of work."""
    hours = max(1.0, min(work.work_h, 8.0))
    losses = offer.loss_factor() * expected_ends(offer.age_h, hours)
    return offer.price + losses * work.restart_h / hours, offer.name


class _Costs:
    """The expected costs of the ways of one decision."""

    def __init__(
        self,
        work: DeadlineWork,
        offers: Sequence[SpotOffer],
        best: SpotOffer | None,
        grid: Grid,
    ) -> None:
        self._work = work
        self._best = best
        self._others = [offer for offer in offers if offer is not best and offer.is_available]
        self._unavailable = [offer for offer in offers if not offer.is_available]
        self._grid = grid
        self._odds = self._assume(offers)
        self._values = cost_table(self._grid, self._odds)

    def _assume(self, offers: Sequence[SpotOffer]) -> Odds:
        shown = self._best or min(offers, key=lambda offer: offer.price)
        steadiest = sorted(offer.loss_factor() for offer in offers)[:3]
        usual = sum(steadiest) / len(steadiest)
        loss = math.sqrt(usual * (self._best.loss_factor() if self._best else usual))
        returning = sum(offer.return_factor() for offer in offers) / math.sqrt(len(offers))
        another, phase = 0.0, 0
        if self._others:
            another = _ANOTHER_AT_HAND
            phase = phase_of(max(offer.age_h for offer in self._others))
        elif len(offers) > 1:
            another = _ANOTHER_LATER
        vanishing = loss * (1 - another)
        return Odds(
            round(shown.price, 2), _rounded(loss), _rounded(max(0.05, vanishing)),
            _rounded(returning), another, phase,
        )  # fmt: skip

    def of(self, way: Way) -> float:
        """Return the cost of one step in a way, and of the best decisions after it."""
        work, step, values = self._work, self._grid.step_h, self._values
        if way is Way.WAIT:
            return self._expected(values.waiting, values.offered, work.slack_h - step)
        restart = _restart_left(
            work, way, self._best.name if way is Way.SPOT and self._best else ""
        )
        slack = work.slack_h - restart
        hours = min(work.work_h, step) + restart
        if way is Way.ON_DEMAND:
            return hours + self._expected(values.on_demand_alone, values.on_demand_offered, slack)
        assert self._best is not None
        lost = end_probability(self._best.age_h, step, self._odds.loss)
        after = work.left_h - step
        phase = phase_of(self._best.age_h + step)
        replaced = values.at(values.offered, self._odds.another_phase, after, slack)
        gone = values.at(values.waiting, 0, after, slack)
        loss = self._odds.another * replaced + (1 - self._odds.another) * gone
        stays = values.at(values.spot, phase, after, slack)
        return hours * self._odds.price + lost * loss + (1 - lost) * stays

    def _expected(self, without: Table, with_offer: Table, slack: float) -> float:
        """Return the mean of the costs with and without a spot offer after a step."""
        values, step = self._values, self._grid.step_h
        after = self._work.left_h - step
        if self._best is not None:
            ends = end_probability(self._best.age_h, step, self._odds.vanishing)
            phase = phase_of(self._best.age_h + step)
            none = values.at(without, 0, after, slack)
            return ends * none + (1 - ends) * values.at(with_offer, phase, after, slack)
        missing = math.prod(
            1 - end_probability(offer.age_h, step, offer.return_factor())
            for offer in self._unavailable
        )
        youngest = min(offer.age_h for offer in self._unavailable)
        none = values.at(without, phase_of(youngest + step), after, slack)
        return missing * none + (1 - missing) * values.at(with_offer, 0, after, slack)


def _rounded(factor: float) -> float:
    return round(_FACTOR_BASE ** round(math.log(factor, _FACTOR_BASE)), 4)


def _rounded_up(hours: float) -> float:
    return float(_STEP_BASE ** math.ceil(math.log(max(hours, 1e-3), _STEP_BASE)))
