"""The choice between waiting, spot machines and on-demand machines for work with a deadline."""

import random
from dataclasses import replace

import pytest
from det_controlplane.core.provision.deadline_choice import (
    NOWHERE,
    Choice,
    DeadlineWork,
    Place,
    Way,
    choose,
)
from det_controlplane.core.provision.spot_spells import SpotOffer, end_probability

from bench.deadline_replay import Job, Product, Trace, UniformProgress, optimum, replay

TICK_H = 0.25
WORK = DeadlineWork(left_h=40.0, work_h=24.0, restart_h=0.3, decision_h=TICK_H)
HERE = SpotOffer("a", 0.3, is_available=True, age_h=3.0)
GONE = SpotOffer("a", 0.3, is_available=False, age_h=0.1)


def drawn_trace(seed: int, zones: int, ticks: int, loss: float = 1.0) -> Trace:
    """Return a trace with spells of the law that the policy assumes."""
    numbers = random.Random(seed)
    rows = []
    for _ in range(zones):
        available, age, row = numbers.random() < 0.7, 0.0, []
        for _ in range(ticks):
            ends = end_probability(age, TICK_H, loss if available else 1.5)
            available, age = (
                (not available, 0.0) if numbers.random() < ends else (available, age + TICK_H)
            )
            row.append(available)
        rows.append(tuple(row))
    return Trace("drawn", TICK_H, tuple(rows))


def test_work_runs_on_spot_where_it_is_available() -> None:
    choice = choose(WORK, [HERE])
    assert (choice.way, choice.offer) == (Way.SPOT, "a")
    assert choice.costs[Way.SPOT] < choice.costs[Way.ON_DEMAND]


def test_work_with_slack_waits_for_spot_that_was_just_lost() -> None:
    assert choose(WORK, [GONE]).way is Way.WAIT


def test_work_does_not_wait_for_spot_that_has_been_away_for_long() -> None:
    tight = replace(WORK, left_h=26.0)
    assert choose(tight, [replace(GONE, age_h=30.0)]).way is Way.ON_DEMAND


@pytest.mark.parametrize("offer", [HERE, GONE], ids=["available", "unavailable"])
def test_last_chance_is_on_demand(offer: SpotOffer) -> None:
    late = replace(WORK, left_h=24.3)
    assert choose(late, [offer]) == Choice(Way.ON_DEMAND, "", {}, is_last_chance=True)


def test_work_on_spot_keeps_its_machine_beside_a_steadier_one() -> None:
    steadier = SpotOffer("b", 0.3, is_available=True, age_h=50.0)
    assert choose(replace(WORK, place=Place(Way.SPOT, "a")), [HERE, steadier]).offer == "a"
    assert choose(replace(WORK, place=NOWHERE), [HERE, steadier]).offer == "b"


def test_cheaper_offer_is_chosen_among_equally_steady_ones() -> None:
    assert choose(WORK, [HERE, replace(HERE, name="b", price=0.2)]).offer == "b"


def test_work_on_demand_moves_to_spot_only_if_it_lasts() -> None:
    work = replace(WORK, place=Place(Way.ON_DEMAND), left_h=27.0)
    new = replace(HERE, age_h=0.0)
    for _ in range(40):  # this offer never lasts for an hour
        new = new.after(0.5, False).after(0.5, True)
    assert choose(work, [new]).way is Way.ON_DEMAND
    assert choose(work, [replace(HERE, age_h=10.0)]).way is Way.SPOT


def test_without_spot_offers_the_work_runs_on_demand() -> None:
    assert choose(WORK, []).way is Way.ON_DEMAND


@pytest.mark.parametrize("zones", [1, 3])
def test_no_deadline_that_on_demand_meets_is_missed(zones: int) -> None:
    numbers = random.Random(zones)
    for seed in range(12):
        job = Job(
            numbers.uniform(0.5, 12.0), numbers.uniform(0.15, 0.8), numbers.uniform(0.0, 0.5), 0.3
        )
        trace = drawn_trace(seed, zones, job.ticks(drawn_trace(0, 1, 0)), numbers.uniform(0.3, 4.0))
        if len(trace.zones[0]) * TICK_H < job.work_h + job.restart_h + TICK_H:
            continue
        assert not replay(Product(), job, trace).missed, (seed, job)


def test_policy_is_near_the_optimum_and_below_uniform_progress() -> None:
    job = Job(24.0, 0.3, 0.3, 0.3)
    traces = [drawn_trace(seed, 1, job.ticks(drawn_trace(0, 1, 0))) for seed in range(8)]
    ours = sum(replay(Product(), job, trace).cost for trace in traces)
    peer = sum(replay(UniformProgress(), job, trace).cost for trace in traces)
    assert ours < peer
    assert ours < 1.2 * sum(optimum(job, trace) for trace in traces)
