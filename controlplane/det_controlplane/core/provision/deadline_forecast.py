"""Forecast the cost of work with a deadline: play the policy against spells that are drawn from the law of spells.

The length of the work is drawn too, with the error that `deadline_outlook` assumes. So a forecast and the outlook of
running work give about the same chance.
"""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from .deadline_choice import NOWHERE, DeadlineWork, Place, Way, choose, grid_of
from .deadline_outlook import ESTIMATE_ERROR
from .spot_spells import SpotOffer, end_probability
from .work_left import RESERVE

RUNS = 1000
_LEAST_RUNS = 20
# A run has at most so many decisions, which bounds its time. They are further apart than real ones.
_STEPS = 24
_LEAST_STEP_H = 0.25
# The printed range leaves out the cheapest and the dearest runs.
_OUTSIDE = 0.025


@dataclass(frozen=True, slots=True)
class Forecast:
    """Costs are in hours of the machine on demand."""

    on_time: float  # the share of the runs that ended before the deadline
    least_h: float
    most_h: float
    on_demand_h: float
    runs: int


def forecast(
    left_h: float,
    work_h: float,
    restart_h: float,
    offers: Sequence[SpotOffer],
    has_time: Callable[[], bool] = lambda: True,
) -> Forecast:
    """Return the costs between which 95 % of the simulated runs end. They stop early if there is no more time.

    `work_h` is the estimate without the reserve.
    """
    results: list[tuple[bool, float]] = []
    while len(results) < RUNS and (len(results) < _LEAST_RUNS or has_time()):
        # Each run has its own seed, so that the number of runs changes no run.
        rng = random.Random(len(results))
        results.append(_Run(left_h, work_h, restart_h, offers, rng).play())
    costs, runs = sorted(cost for _, cost in results), len(results)
    outside = int(runs * _OUTSIDE)
    on_time = sum(is_on_time for is_on_time, _ in results) / runs
    return Forecast(on_time, costs[outside], costs[-1 - outside], work_h + restart_h, runs)


class _Run:
    """Plays one course of the work."""

    def __init__(
        self,
        left_h: float,
        work_h: float,
        restart_h: float,
        offers: Sequence[SpotOffer],
        rng: random.Random,
    ) -> None:
        self._rng = rng
        self._step_h = max(_LEAST_STEP_H, left_h / _STEPS)
        self._offers = list(offers)
        # The policy plans with the reserve. All runs share the grid of the estimate.
        planned = DeadlineWork(left_h, RESERVE * work_h, restart_h, min(self._step_h, restart_h))
        self._grid = grid_of(planned)
        error = math.exp(rng.gauss(0.0, ESTIMATE_ERROR))
        self._work = replace(planned, work_h=planned.work_h * error)
        self._cost_h = 0.0

    def play(self) -> tuple[bool, float]:
        """Return whether the work ended in time, and its cost."""
        while self._work.work_h > 1e-9 and self._work.left_h > -10 * self._step_h:
            self._run_until_the_next_decision()
        return self._work.left_h >= -1e-6, self._cost_h

    def _run_until_the_next_decision(self) -> None:
        step_h = self._step_h
        work = replace(self._work, decision_h=step_h)
        choice = choose(work, self._offers, self._grid)
        if choice.way is Way.WAIT:
            self._work = replace(work, left_h=work.left_h - step_h, place=NOWHERE)
            self._pass_time(step_h)
            return
        place = work.place
        if place.way is not choice.way or place.offer != choice.offer:
            place = Place(choice.way, choice.offer, work.restart_h)
        hours = min(step_h, place.restart_left_h + work.work_h / RESERVE)
        price = 1.0
        if choice.way is Way.SPOT:
            price = next(offer.price for offer in self._offers if offer.name == choice.offer)
        self._cost_h += price * hours
        done = max(0.0, hours - place.restart_left_h)
        place = place._replace(restart_left_h=max(0.0, place.restart_left_h - hours))
        self._work = replace(
            work, left_h=work.left_h - hours, work_h=work.work_h - RESERVE * done, place=place
        )
        self._pass_time(hours)
        if choice.way is Way.SPOT and not self._is_available(choice.offer):
            self._work = replace(self._work, place=NOWHERE)

    def _pass_time(self, hours: float) -> None:
        self._offers = [self._later(offer, hours) for offer in self._offers]

    def _later(self, offer: SpotOffer, hours: float) -> SpotOffer:
        factor = offer.loss_factor() if offer.is_available else offer.return_factor()
        ends = self._rng.random() < end_probability(offer.age_h, hours, factor)
        # The factors of the forecast stay as they were learned.
        if ends:
            return replace(offer, is_available=not offer.is_available, age_h=0.0)
        return replace(offer, age_h=offer.age_h + hours)

    def _is_available(self, name: str) -> bool:
        return any(offer.name == name and offer.is_available for offer in self._offers)
