"""Predict the end of work with a deadline, and name the state of the deadline.

Times are hours from now.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from .deadline_choice import Choice, DeadlineWork, Way
from .deadline_model import DeadlineState
from .spot_spells import SpotOffer, end_probability, expected_ends
from .work_left import RESERVE

# The real work is assumed to differ from its estimate by a factor with this standard deviation, on a log scale.
ESTIMATE_ERROR = 0.1
# A deadline is in danger below this probability. That is so when the estimate and its reserve just fit.
DANGER_BELOW = 0.69
# It is out of danger again from this probability on, so that small changes of the pace are no news.
_SAFE_FROM = 0.8
# A wait is predicted to end when a spot offer has returned with this probability.
_RETURNED = 0.5
_LONGEST_WAIT_H = 1000.0


class Outlook(NamedTuple):
    """The predicted end, and the probability of an end before the deadline. None: the pace is not known."""

    state: DeadlineState
    end_h: float | None = None
    probability: float | None = None


def on_time_probability(left_h: float, work_h: float) -> float:
    """Return the probability that work ends in time, where `work_h` includes the reserve."""
    if left_h <= 0:
        return 0.0
    if work_h <= 0:
        return 1.0
    deviations = math.log(left_h * RESERVE / work_h) / ESTIMATE_ERROR
    return 0.5 * (1 + math.erf(deviations / math.sqrt(2)))


def outlook(
    before: DeadlineState, work: DeadlineWork, choice: Choice | None, offers: Sequence[SpotOffer]
) -> Outlook:
    """Return the outlook of work after a choice, or of work that any machine may run.

    A last chance stays one while machines on demand are chosen.
    """
    if work.left_h <= 0:
        return Outlook(DeadlineState.MISSED)
    start_h = _start_h(work, work.place.way, work.place.offer)
    probability = on_time_probability(work.left_h - start_h, work.work_h)
    way = choice.way if choice else work.place.way
    was_in_danger = before.badness >= DeadlineState.IN_DANGER.badness
    if probability < (_SAFE_FROM if was_in_danger else DANGER_BELOW):
        state = DeadlineState.IN_DANGER
    elif choice and (
        choice.is_last_chance or (way is Way.ON_DEMAND and before is not DeadlineState.ON_TRACK)
    ):
        state = DeadlineState.LAST_CHANCE
    else:
        state = DeadlineState.ON_TRACK
    end_h = _end_h(work, way, choice.offer if choice else work.place.offer, offers)
    return Outlook(state, end_h, probability)


def _start_h(work: DeadlineWork, way: Way, offer: str) -> float:
    stays = way is not Way.WAIT and (work.place.way, work.place.offer) == (way, offer)
    return work.place.restart_left_h if stays else work.restart_h


def _end_h(work: DeadlineWork, way: Way, offer: str, offers: Sequence[SpotOffer]) -> float:
    """Return the hours until the predicted end. The policy ends earlier than the deadline if it can."""
    hours = _start_h(work, way, offer) + work.work_h
    if way is Way.WAIT:
        hours += _wait_h([one for one in offers if not one.is_available])
    for one in offers:
        if way is Way.SPOT and one.name == offer:
            hours += one.loss_factor() * expected_ends(one.age_h, work.work_h) * work.restart_h
    surely_h = work.restart_h + work.work_h
    return min(hours, max(work.left_h, surely_h))


def _wait_h(offers: Sequence[SpotOffer]) -> float:
    """Return the hours after which one of the unavailable offers has probably returned."""
    low, high = 0.0, _LONGEST_WAIT_H if offers else 0.0
    for _ in range(40):
        middle = (low + high) / 2
        missing = math.prod(
            1 - end_probability(one.age_h, middle, one.return_factor()) for one in offers
        )
        low, high = (low, middle) if 1 - missing >= _RETURNED else (middle, high)
    return high
