"""Large requests that small ones of their priority would pass for ever."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from det_controlplane.core.placement.kept_agents import MAX_PASSED_S
from det_controlplane.core.schedule import PoolSnapshot, Request, WaitCode, decide

from tests.support.schedules import agent, agents, apply, end, job, pool, request, running, starts

LATE = MAX_PASSED_S + 1


def passed_over(**settings: bool) -> PoolSnapshot:
    """Two agents hold one slot each; a request for two slots and a younger one for one wait since 0."""
    return pool(
        agents(2, 2),
        pending=[request("large", 2), request("small", 1)],
        running=[running("r1", a1=1), running("r2", a2=1)],
        jobs=[job(id, position=n) for n, id in enumerate(["r1", "r2", "large", "small"])],
        **settings,
    )


@pytest.mark.parametrize("preemption", [False, True])
def test_small_requests_overtake_a_large_one_until_the_limit(preemption: bool) -> None:
    plan = decide(passed_over(preemption=preemption), MAX_PASSED_S)
    assert set(starts(plan)) == {"small"}


@pytest.mark.parametrize("preemption", [False, True])
def test_small_requests_avoid_the_reserved_agent_after_the_limit(preemption: bool) -> None:
    plan = decide(passed_over(preemption=preemption), LATE)
    assert starts(plan) == {"small": {"a2": 1}}
    assert plan.waiting["large"].code is WaitCode.NO_FREE_SLOTS
    reason = "it has waited for more than 5 min, so slots freed on a1 are reserved for it"
    assert plan.waiting["large"].sentence.endswith(reason)


@pytest.mark.parametrize("preemption", [False, True])
def test_reason_of_a_small_request_names_the_large_job(preemption: bool) -> None:
    snapshot = passed_over(preemption=preemption)
    snapshot = apply(snapshot, decide(snapshot, LATE))
    late = replace(request("late", 1), job=job("late", position=9))
    plan = decide(replace(snapshot, pending=(*snapshot.pending, late)), LATE)
    assert plan.start == ()
    assert plan.preempt == ()
    reason = "the free slots on a1 are reserved for job <large>, which needs 2 slots and has waited for more than"
    assert reason in plan.waiting["late"].sentence


def test_large_request_starts_when_its_reserved_agent_is_free() -> None:
    snapshot = passed_over()
    snapshot = apply(snapshot, decide(snapshot, LATE))
    assert starts(decide(end(snapshot, "r1"), LATE)) == {"large": {"a1": 2}}


def test_requests_ahead_in_the_queue_start_on_reserved_agents() -> None:
    snapshot = passed_over()
    urgent = [
        replace(request(f"u{n}", 1), job=job(f"u{n}", 1, position=9), requested_at=LATE)
        for n in range(2)
    ]
    plan = decide(replace(snapshot, pending=(*snapshot.pending, *urgent)), LATE)
    assert set(starts(plan)) == {"u0", "u1"}


def test_agents_with_least_work_are_reserved_for_a_gang() -> None:
    busy = [running("r1", a1=1), running("r2", a1=1), running("r3", a2=2), running("r4", a3=3)]
    small = [request(f"s{n}", 1) for n in range(8)]
    ids = ["r1", "r2", "r3", "r4", "gang", *(f"s{n}" for n in range(8))]
    jobs = [job(id, position=n) for n, id in enumerate(ids)]
    snapshot = pool(agents(4, 4, 4), pending=[request("gang", 8), *small], running=busy, jobs=jobs)
    assert {on for seats in starts(decide(snapshot, LATE)).values() for on in seats} == {"a1"}


@pytest.mark.parametrize("mixes", [False, True])
def test_agents_reserved_for_a_gang_are_in_one_region(mixes: bool) -> None:
    on = [agent("a1", 4, place="aws"), agent("b1", 4, place="gcp"), agent("b2", 4, place="gcp")]
    busy = [running("r1", a1=1), running("r2", b1=2), running("r3", b2=2)]
    small = [request(f"s{n}", 1) for n in range(8)]
    ids = ["r1", "r2", "r3", "gang", *(f"s{n}" for n in range(8))]
    jobs = [job(id, position=n) for n, id in enumerate(ids)]
    snapshot = pool(
        on,
        pending=[request("gang", 8), *small],
        running=busy,
        jobs=jobs,
        allow_heterogeneous_fits=mixes,
    )
    assert {on for seats in starts(decide(snapshot, LATE)).values() for on in seats} == {"a1"}


def test_no_agent_is_reserved_for_a_request_that_never_fits() -> None:
    snapshot = pool(
        agents(2, 2),
        pending=[request("huge", 3), request("single", 4, single_agent=True), request("small", 1)],
        running=[running("r1", a1=2)],
    )
    assert starts(decide(snapshot, LATE)) == {"small": {"a2": 1}}


def test_no_agent_is_reserved_for_a_job_at_its_limit() -> None:
    limited = [job("r1", position=1, max_slots=1), job("r2", position=2)]
    snapshot = pool(
        agents(2, 1),
        pending=[request("large", 2, "r1"), request("small", 1)],
        running=[running("r1", a1=1), running("r2", a2=1)],
        jobs=limited,
    )
    assert set(starts(decide(snapshot, LATE))) == {"small"}


def test_large_request_starts_although_small_ones_keep_arriving() -> None:
    snapshot = pool(
        agents(2, 2, 2),
        pending=[request("large", 2)],
        running=[running("long1", a1=1), running("long2", a2=1), running("short", a3=1)],
        jobs=[job(id, position=n) for n, id in enumerate(["long1", "long2", "short", "large"])],
    )
    for now, snapshot_now in _with_short_trials(snapshot):
        if "large" in starts(decide(snapshot_now, now)):
            assert now < 5 * MAX_PASSED_S
            return
    raise AssertionError("the large request never starts")


def _with_short_trials(snapshot: PoolSnapshot) -> Iterator[tuple[float, PoolSnapshot]]:
    """Yield the pool every ten seconds: two one-slot trials come each time, and each runs for a minute."""
    ends = {"short": 30.0}
    for tick in range(1_000):
        now = 10.0 * tick
        snapshot = end(snapshot, *(id for id, at in ends.items() if at == now))
        new = tuple(_short_trial(tick, n, now) for n in range(2))
        snapshot = replace(snapshot, pending=(*snapshot.pending, *new))
        yield now, snapshot
        plan = decide(snapshot, now)
        ends |= {s.allocation_id: now + 60 for s in plan.start if s.allocation_id != "large"}
        snapshot = apply(snapshot, plan)


def _short_trial(tick: int, n: int, now: float) -> Request:
    id = f"short-{tick:04}-{n}"
    return replace(request(id, 1), job=job(id, position=10 + tick), requested_at=now)
