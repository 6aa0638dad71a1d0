"""The predicted end of work with a deadline, and the state of the deadline."""

from dataclasses import replace

import pytest
from det_controlplane.core.provision.deadline_choice import Choice, DeadlineWork, Place, Way
from det_controlplane.core.provision.deadline_model import DeadlineState
from det_controlplane.core.provision.deadline_outlook import (
    DANGER_BELOW,
    on_time_probability,
    outlook,
)
from det_controlplane.core.provision.spot_spells import SpotOffer

WORK = DeadlineWork(40, 21, 0.25, 0.1)
HELD = replace(WORK, place=Place(Way.SPOT, "a", 0.1))
DEMAND = Choice(Way.ON_DEMAND, "", {})
AWAY = SpotOffer("a", 0.4, False)


def test_work_that_just_fits_is_at_the_bound_of_danger() -> None:
    assert on_time_probability(20, 20) == pytest.approx(DANGER_BELOW, abs=0.01)
    assert on_time_probability(15, 20) < 0.02
    assert on_time_probability(30, 20) > 0.98


def test_run_ends_after_its_work_and_the_rest_of_its_restart() -> None:
    on_demand = replace(WORK, place=Place(Way.ON_DEMAND, "", 0.1))
    assert outlook(DeadlineState.ON_TRACK, on_demand, DEMAND, []).end_h == pytest.approx(21.1)


def test_spot_run_is_predicted_to_lose_machines() -> None:
    spot = Choice(Way.SPOT, "a", {})
    end_h = outlook(DeadlineState.ON_TRACK, HELD, spot, [replace(AWAY, is_available=True)]).end_h
    assert end_h is not None
    assert 21.1 < end_h < 23


def test_waiting_work_is_predicted_to_start_when_an_offer_returns() -> None:
    wait = Choice(Way.WAIT, "", {})
    one = outlook(DeadlineState.ON_TRACK, WORK, wait, [AWAY]).end_h
    two = outlook(DeadlineState.ON_TRACK, WORK, wait, [AWAY, replace(AWAY, name="b")]).end_h
    assert one is not None
    assert two is not None
    assert 21.25 < two < one < 40


def test_waiting_work_is_predicted_to_end_before_its_deadline() -> None:
    wait = Choice(Way.WAIT, "", {})
    old = replace(AWAY, age_h=500.0)
    assert outlook(DeadlineState.ON_TRACK, WORK, wait, [old]).end_h == pytest.approx(40)


@pytest.mark.parametrize(
    ("before", "left_h", "choice", "state"),
    [
        (DeadlineState.ON_TRACK, 40, DEMAND, DeadlineState.ON_TRACK),
        (DeadlineState.ON_TRACK, 22, replace(DEMAND, is_last_chance=True), DeadlineState.LAST_CHANCE),
        (DeadlineState.LAST_CHANCE, 23, DEMAND, DeadlineState.LAST_CHANCE),
        (DeadlineState.LAST_CHANCE, 30, Choice(Way.WAIT, "", {}), DeadlineState.ON_TRACK),
        (DeadlineState.ON_TRACK, 21, DEMAND, DeadlineState.IN_DANGER),
        (DeadlineState.IN_DANGER, 21.5, None, DeadlineState.IN_DANGER),
        (DeadlineState.IN_DANGER, 23, None, DeadlineState.ON_TRACK),
        (DeadlineState.IN_DANGER, -1, None, DeadlineState.MISSED),
    ],
)  # fmt: skip
def test_state_follows_probability_and_choice(
    before: DeadlineState, left_h: float, choice: Choice | None, state: DeadlineState
) -> None:
    work = replace(WORK, left_h=left_h)
    assert outlook(before, work, choice, [AWAY]).state is state
