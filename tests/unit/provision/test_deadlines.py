"""Decisions about experiments with a deadline, as the provisioner makes them."""

from dataclasses import replace
from typing import Any

import pytest
from det_controlplane.core.provision.deadline_choice import Way
from det_controlplane.core.provision.deadline_model import DeadlineJob, DeadlineRun, DeadlineState
from det_controlplane.core.provision.model import (
    Cooldown,
    PoolSnapshot,
    ProvisionCode,
    ProvisionPlan,
    RefusalKind,
)
from det_controlplane.core.provision.offers import Capacity, Scope
from det_controlplane.core.provision.work_left import earliest_end, work_left_h

from tests.support.provisioning import NOW, demand, machine, offer, plan, pool, rented, spot

HOUR = 3600.0
CHEAP, SURE = spot(1, "0.40"), offer(1, "1.00")
NO_SPOT = [
    Cooldown(Scope("aws", capacity="spot"), RefusalKind.NO_CAPACITY, NOW + 180, "no capacity")
]


def job(**more: Any) -> DeadlineJob:
    usual = DeadlineJob("j", 7, NOW + 40 * HOUR, 1, False, 0.0, 0.0, 20.0, 0.0, 0.25, ("d1",))
    return replace(usual, **more)


def running(machine_id: str, **more: Any) -> DeadlineRun:
    return replace(DeadlineRun("r1", machine_id, 1, NOW - HOUR, True, True), **more)


def waiting(one: DeadlineJob, *machines: Any, **more: Any) -> PoolSnapshot:
    queue = [demand(id, 1, job_id="j") for id in one.queued]
    return pool([CHEAP, SURE], queue, machines, deadline_jobs=(one,), **more)


def decided(result: ProvisionPlan) -> Way | None:
    (decision,) = result.deadlines
    return decision.way


def capacities(result: ProvisionPlan) -> list[str]:
    return sorted(launch.offers[0].capacity.value for launch in result.launch)


def test_spot_machine_is_rented_with_slack() -> None:
    result = plan(waiting(job()))
    assert (decided(result), capacities(result)) == (Way.SPOT, ["spot"])


def test_nothing_is_rented_while_work_waits() -> None:
    result = plan(waiting(job()), NO_SPOT)
    assert (decided(result), result.launch) == (Way.WAIT, ())
    assert result.waiting["d1"].code is ProvisionCode.DEADLINE
    assert result.deadlines[0].sentence.partition(" UTC; ")[2].startswith(f"{CHEAP}: no capacity")
    assert result.next_at is not None
    assert result.next_at <= NOW + 300


def test_last_chance_rents_on_demand_although_spot_is_there() -> None:
    result = plan(waiting(job(deadline=NOW + 21.2 * HOUR)))
    assert (decided(result), capacities(result)) == (Way.ON_DEMAND, ["on-demand"])


def test_missing_time_is_no_negative_slack() -> None:
    (decision,) = plan(waiting(job(deadline=NOW + 11 * HOUR))).deadlines
    assert "because the work takes 10.0 h more than is left" in decision.sentence


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (5400, "1.5 h left"), (600, "10 min left"), (20, "20 s left"), (0, "it passed 0 s ago"),
        (-90, "it passed 2 min ago"), (-7200, "it passed 2.0 h ago"),
    ],
)  # fmt: skip
def test_time_around_a_deadline_is_exact(seconds: float, expected: str) -> None:
    (decision,) = plan(waiting(job(deadline=NOW + seconds))).deadlines
    assert expected in decision.sentence


def test_last_chance_is_placed_on_no_free_spot_machine() -> None:
    result = plan(waiting(job(deadline=NOW + 21.2 * HOUR), machine("m1", CHEAP)))
    assert capacities(result) == ["on-demand"]


def test_other_demand_is_not_restricted() -> None:
    snapshot = waiting(job())
    others = (*snapshot.demand, demand("other", 1))
    result = plan(replace(snapshot, demand=others), NO_SPOT)
    assert capacities(result) == ["on-demand"]
    assert result.waiting["other"].code is ProvisionCode.LAUNCHING


def test_replacement_of_a_leaving_machine_is_what_the_deadline_allows() -> None:
    leaving = machine("m1", CHEAP, used_slots=1, leaving_since=NOW)
    late = job(deadline=NOW + 21.2 * HOUR, queued=(), runs=(running("m1", is_leaving=True),))
    assert capacities(plan(waiting(late, leaving))) == ["on-demand"]


def test_run_on_spot_stays() -> None:
    result = plan(
        waiting(job(queued=(), runs=(running("m1"),)), machine("m1", CHEAP, used_slots=1))
    )
    assert (decided(result), result.launch, result.moves) == (Way.SPOT, (), ())


def test_run_on_demand_moves_once_a_spot_machine_has_joined() -> None:
    moving = job(queued=(), runs=(running("m1"),))
    busy = machine("m1", SURE, used_slots=1)
    first = plan(waiting(moving, busy))
    assert (capacities(first), first.moves) == (["spot"], ())
    second = plan(waiting(moving, busy, machine("m2", CHEAP)))
    assert [move.allocation_id for move in second.moves] == ["r1"]
    assert second.launch == ()


def test_run_that_cannot_save_a_checkpoint_does_not_move() -> None:
    moving = job(queued=(), runs=(running("m1", can_move=False),))
    result = plan(waiting(moving, machine("m1", SURE, used_slots=1)))
    assert (result.launch, result.moves) == ((), ())


def test_run_without_time_for_a_loss_moves_to_demand() -> None:
    late = job(deadline=NOW + 21.1 * HOUR, queued=(), runs=(running("m1"),))
    busy = machine("m1", CHEAP, used_slots=1)
    assert capacities(plan(waiting(late, busy))) == ["on-demand"]
    assert plan(waiting(late, busy, machine("m2", SURE))).moves


def test_pool_without_spot_only_watches() -> None:
    snapshot = replace(waiting(job(deadline=NOW + HOUR)), offers=(SURE,))
    result = plan(snapshot)
    (decision,) = result.deadlines
    assert (decision.way, decision.state, rented(result)) == (
        None,
        DeadlineState.IN_DANGER,
        ["gpu.1x"],
    )
    assert "THE DEADLINE IS IN DANGER" in decision.sentence


def test_offers_that_only_an_operator_can_free_are_not_awaited() -> None:
    denied = [
        Cooldown(Scope("aws", capacity="spot"), RefusalKind.INVALID, NOW + 1e9, "wrong image")
    ]
    assert capacities(plan(waiting(job()), denied)) == ["on-demand"]


def test_chosen_offer_comes_first() -> None:
    dearer = spot(1, "0.42", zone="us-east-1b")
    snapshot = replace(waiting(job()), offers=(CHEAP, dearer, SURE))
    (decision,) = plan(snapshot).deadlines
    held = machine("m1", dearer, used_slots=1)
    several = job(queued=("d1",), runs=(running("m1"),))
    snapshot = replace(waiting(several, held), offers=(CHEAP, dearer, SURE))
    (launch,) = plan(snapshot).launch
    assert decision.first_offer == str(CHEAP)
    assert launch.offers[0] == dearer


@pytest.mark.parametrize(
    ("changes", "hours"),
    [
        ({}, 21.0),
        ({"progress": 0.5, "run_h": 4.0}, 4.2),
        ({"progress": 0.5, "run_h": 8.0, "runs": (running("m1"), running("m2"))}, 4.2),
        ({"progress": 0.01, "run_h": 1.0}, 20.79),
        ({"progress": 0.5, "run_h": 4.0, "unsaved_h": 0.5}, 4.7),
        ({"expected_h": None}, None),
        ({"progress": 1.0, "run_h": 4.0}, 0.0),
    ],
)
def test_hours_that_are_left(changes: dict[str, Any], hours: float | None) -> None:
    assert work_left_h(job(**changes)) == (None if hours is None else pytest.approx(hours))


def test_earliest_end_is_a_whole_minute() -> None:
    assert earliest_end(NOW, 10.0, 0.25) == pytest.approx(NOW + 10.75 * HOUR, abs=60)
    assert earliest_end(NOW, None, 0.0) % 60 == 0


def test_capacity_of_a_decision_is_the_capacity_of_its_offers() -> None:
    (decision,) = plan(waiting(job())).deadlines
    assert decision.capacity == Capacity.SPOT.value
