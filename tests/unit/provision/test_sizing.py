"""The numbers of machines that Determined's provisioner rents and terminates, compared with a pool of one offer."""

from dataclasses import replace

import pytest
from det_controlplane.core.lifecycle.machine import MachineState
from det_controlplane.core.provision.model import Demand, Limits, Machine
from hypothesis import given
from hypothesis import strategies as st

from tests.support.provisioning import NOW, machine, offer, plan, pool, starting, wants
from tests.support.sizing_rules import (
    desired_machines,
    size,
    to_launch,
    to_terminate,
)

FOUR = offer(4, "3.50")
LIMITS = Limits(max_idle_s=600, max_starting_s=300)


def group(job_id: str, *slots: int, max_slots: int | None = None) -> list[Demand]:
    return [
        Demand(f"{job_id}.{n}", job_id, size, NOW, job_max_slots=max_slots)
        for n, size in enumerate(slots)
    ]


@pytest.mark.parametrize(
    ("slots", "slots_per_machine", "max_aux", "machines"),
    [
        ((1,), 0, 100, 0),
        ((1,), 1, 100, 1),
        ((1,), 2, 100, 1),
        ((1, 1), 0, 100, 0),
        ((1, 1), 1, 100, 2),
        ((1, 1), 2, 100, 1),
        ((1, 1, 0), 0, 100, 1),
        ((1, 1, 0), 0, 0, 0),
        ((1, 1, 0), 0, 1, 1),
        ((1, 1, 0), 0, 2, 1),
        ((1, 1, 0, 4), 1, 100, 6),
        ((1, 1, 0, 4), 2, 100, 3),
        ((1, 1, 0, 4, 3), 1, 100, 9),
        ((1, 1, 0, 4, 3), 2, 100, 3),
    ],
)
def test_queue_needs_the_expected_number_of_machines(
    slots: tuple[int, ...], slots_per_machine: int, max_aux: int, machines: int
) -> None:
    assert desired_machines(wants(*slots), slots_per_machine, max_aux) == machines


def test_job_counts_only_up_to_its_max_slots() -> None:
    demand = [
        *group("one", 1, 1, 3, max_slots=1),
        *group("two", 4, 1, max_slots=2),
        *group("free", 1, 3, 10),
        *group("ten", 15, max_slots=10),
    ]
    assert desired_machines(demand, 5, 10) == 6


def test_demand_for_one_machine_is_not_spread_over_several() -> None:
    assert desired_machines(wants(8, single_agent=True), 4, 100) == 0
    assert desired_machines(wants(8), 4, 100) == 2


@pytest.mark.parametrize(
    ("least", "most", "staying", "starting", "desired", "launched"),
    [
        (1, 10, 0, 0, 1, 1),
        (0, 2, 1, 0, 4, 1),
        (0, 10, 2, 1, 4, 3),
        (0, 10, 2, 2, 1, 0),
        (3, 10, 1, 0, 0, 2),
        (0, 2, 5, 0, 4, 0),
    ],
)
def test_missing_machines_are_launched_within_the_limits(
    least: int, most: int, staying: int, starting: int, desired: int, launched: int
) -> None:
    limits = Limits(min_instances=least, max_instances=most)
    assert to_launch(staying, starting, desired, limits) == launched


def busy(id: str, launched_at: float) -> Machine:
    return machine(id, FOUR, used_slots=4, launched_at=launched_at)


def idle(id: str, for_s: float) -> Machine:
    return machine(id, FOUR, launched_at=NOW - 5_000, idle_since=NOW - for_s)


def test_above_the_maximum_idle_machines_leave_before_the_newest_working_one() -> None:
    machines = [
        busy("earliest", NOW - 4_000),
        busy("most recent", NOW - 2_000),
        idle("new idle", 10),
        idle("long idle", 700),
    ]
    ending = to_terminate(machines, replace(LIMITS, max_instances=1), NOW)
    assert {machine_id: reason.value for machine_id, reason in ending} == {
        "long idle": "IDLE",
        "new idle": "OVER_MAXIMUM",
        "most recent": "OVER_MAXIMUM",
    }


def test_starting_machines_are_the_first_to_leave_above_the_maximum() -> None:
    machines = [busy("works", NOW - 4_000), idle("idle", 10), starting("starts", FOUR)]
    ending = to_terminate(machines, replace(LIMITS, max_instances=2), NOW)
    assert [machine_id for machine_id, _ in ending] == ["starts"]


def test_at_the_minimum_only_stopped_and_long_silent_machines_leave() -> None:
    silent = replace(busy("long disconnected", NOW - 4_000), disconnected_since=NOW - 601)
    brief = replace(busy("just disconnected", NOW - 4_000), disconnected_since=NOW - 599)
    machines = [
        idle("long idle", 700),
        replace(busy("stopped", NOW - 4_000), stopped=True),
        silent,
        brief,
        *(busy(f"works {n}", NOW - 4_000) for n in range(4)),
    ]
    ending = to_terminate(machines, replace(LIMITS, min_instances=6, max_instances=8), NOW)
    assert {machine_id: reason.value for machine_id, reason in ending} == {
        "stopped": "STOPPED",
        "long disconnected": "DISCONNECTED",
    }


def test_machine_that_never_joins_is_terminated_ten_minutes_after_starting_period() -> None:
    ages = (299, 899, 901)
    late = [replace(starting(f"{age}", FOUR), launched_at=NOW - age) for age in ages]
    assert to_terminate(late[:2], LIMITS, NOW) == ()
    assert [(id, reason.value) for id, reason in to_terminate(late, LIMITS, NOW)] == [
        ("901", "NEVER_REGISTERED")
    ]


def test_leaving_machines_are_not_counted() -> None:
    leaving = [
        replace(busy(state.value, NOW - 4_000), state=state)
        for state in (MachineState.TERMINATING, MachineState.GONE, MachineState.FAILED)
    ]
    sizing = size(leaving, wants(4), replace(LIMITS, max_instances=1), 4, NOW)
    assert sizing == (1, ())


def test_starting_machines_reduce_the_number_to_launch() -> None:
    machines = [busy("works", NOW - 4_000), starting("starts", FOUR)]
    sizing = size(machines, wants(4, 4, 8), LIMITS, 4, NOW)
    assert sizing == (3, ())


@given(st.lists(st.sampled_from([1, 2, 4, 8, 12]), max_size=12))
def test_a_pool_of_one_offer_never_rents_less_than_the_rules_or_much_more(
    slots: list[int],
) -> None:
    """A machine that is left partly empty, as no whole demand fits into the rest, is counted in addition."""
    limits = Limits(max_instances=1_000)
    launch_count = size((), wants(*slots), limits, 4, NOW).launch
    launched_launch_count = len(plan(pool([FOUR], wants(*slots), limits=limits)).launch)
    assert launch_count <= launched_launch_count <= max(launch_count, 2 * launch_count - 1)
