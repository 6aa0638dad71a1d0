"""Elastic gangs start with the slots that are free, and grow when more are."""

from dataclasses import replace

from det_controlplane.core.placement.model import Agent
from det_controlplane.core.schedule import (
    Growth,
    PoolSnapshot,
    PreemptReason,
    Running,
    WaitCode,
    decide,
)
from det_controlplane.core.schedule.growth import SHORTEST_RUN_S
from hypothesis import given, settings

from tests.support.schedule_strategies import pools
from tests.support.schedules import NOW, agents, job, pool, preempted, request, running, starts
from tests.support.thorough import often

many = settings(max_examples=often(100, 300))
OLD = NOW - SHORTEST_RUN_S


def elastic(
    id: str, least: int, most: int, *, started_at: float | None = OLD, **on: int
) -> Running:
    return replace(running(id, **on), growth=Growth(most, started_at))


def test_elastic_gang_starts_with_all_its_slots_if_they_are_free() -> None:
    snapshot = pool(agents(2, 2), pending=[request("r", 4, min_slots=1)])
    assert starts(decide(snapshot, NOW)) == {"r": {"a1": 2, "a2": 2}}


def test_elastic_gang_starts_on_the_survivors() -> None:
    snapshot = pool(agents(1, 1, 1), pending=[request("r", 4, min_slots=2)])
    assert starts(decide(snapshot, NOW)) == {"r": {"a1": 1, "a2": 1, "a3": 1}}


def test_elastic_gang_waits_below_its_minimum() -> None:
    snapshot = pool(agents(1, 1), pending=[request("r", 4, min_slots=3)])
    plan = decide(snapshot, NOW)
    assert not plan.start
    assert plan.waiting["r"].code is WaitCode.TOO_LARGE
    assert "needs 3 to 4 slots" in plan.waiting["r"].sentence


def test_elastic_gang_preempts_only_for_its_minimum() -> None:
    snapshot = pool(
        agents(1, 1, 1),
        pending=[request("high", 3, min_slots=1)],
        running=[running("x", a1=1), running("y", a2=1), running("z", a3=1)],
        jobs=[job("high", 1), job("x", 42), job("y", 42), job("z", 42)],
        preemption=True,
    )
    assert len(preempted(snapshot)) == 1


def test_elastic_gang_respects_max_slots_of_its_job() -> None:
    limited = job("r", max_slots=3)
    snapshot = pool(agents(1, 1, 1, 1), pending=[request("r", 4, min_slots=1)], jobs=[limited])
    assert sum(starts(decide(snapshot, NOW))["r"].values()) == 3


def test_gang_grows_when_an_agent_comes() -> None:
    snapshot = pool(agents(1, 1, 1), running=[elastic("r", 1, 4, a1=1, a2=1)])
    (preempt,) = decide(snapshot, NOW).preempt
    assert (preempt.allocation_id, preempt.reason) == ("r", PreemptReason.GROWTH)
    assert preempt.slots == 3


def test_gang_grows_only_after_a_while_and_says_when() -> None:
    snapshot = pool(agents(1, 1), running=[elastic("r", 1, 2, started_at=NOW - 20, a1=1)])
    plan = decide(snapshot, NOW)
    assert not plan.preempt
    assert plan.next_at == NOW - 20 + SHORTEST_RUN_S


def test_gang_that_cannot_save_a_checkpoint_does_not_grow() -> None:
    snapshot = pool(agents(1, 1), running=[elastic("r", 1, 2, started_at=None, a1=1)])
    assert not preempted(snapshot)


def test_gang_does_not_grow_while_a_job_waits() -> None:
    snapshot = pool(
        agents(1, 1, 1),
        pending=[request("big", 4)],
        running=[elastic("r", 1, 3, a1=1)],
    )
    assert not preempted(snapshot)


def test_gang_does_not_grow_onto_agents_on_which_it_failed() -> None:
    growth = Growth(2, OLD, blocked_agents=frozenset({"a2"}))
    gang = replace(running("r", a1=1), growth=growth)
    assert not preempted(pool(agents(1, 1), running=[gang]))


def test_gang_does_not_grow_onto_partly_used_agents() -> None:
    snapshot = pool(
        [Agent("a1", 2), Agent("a2", 2)],
        running=[elastic("r", 1, 4, a1=2), running("x", a2=1)],
    )
    assert not preempted(snapshot)


def test_one_gang_grows_at_a_time() -> None:
    snapshot = pool(agents(1, 1, 1), running=[elastic("r", 1, 2, a1=1), elastic("s", 1, 2, a2=1)])
    assert len(preempted(snapshot)) == 1


@many
@given(pools())
def test_growth_never_takes_slots_from_a_queue(snapshot: PoolSnapshot) -> None:
    plan = decide(snapshot, NOW)
    started = {start.allocation_id for start in plan.start}
    waiting = [
        r
        for r in snapshot.pending
        if r.slots and r.allocation_id not in started
        and plan.waiting[r.allocation_id].code is not WaitCode.MAX_SLOTS
    ]  # fmt: skip
    grown = [p for p in plan.preempt if p.reason is PreemptReason.GROWTH]
    assert not (waiting and grown)
    by_id = {r.allocation_id: r for r in snapshot.running}
    for preempt in grown:
        gang = by_id[preempt.allocation_id]
        assert gang.growth is not None
        assert gang.slots < preempt.slots <= gang.growth.max_slots
