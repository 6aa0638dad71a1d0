"""`max_slots` of an experiment holds under every scheduler."""

from dataclasses import replace

import pytest
from det_controlplane.core.schedule import PreemptReason, SchedulerType, WaitCode, decide

from tests.support.schedules import (
    NOW,
    agents,
    apply,
    job,
    pool,
    preempted,
    request,
    running,
    started,
)

SCHEDULERS: tuple[SchedulerType, ...] = ("priority", "fair_share", "round_robin")


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_trials_start_up_to_the_limit(scheduler: SchedulerType) -> None:
    pending = [request(f"t{n}", 2, "exp") for n in range(4)]
    snapshot = pool(agents(8), pending=pending, jobs=[job("exp", max_slots=5)], scheduler=scheduler)
    assert started(snapshot) == {"t0", "t1"}


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_preempted_allocations_still_count(scheduler: SchedulerType) -> None:
    leaving = replace(running("t0", "exp", a1=2), releasing=True)
    snapshot = pool(
        agents(8),
        pending=[request("t1", 2, "exp")],
        running=[leaving],
        jobs=[job("exp", max_slots=2)],
        scheduler=scheduler,
    )
    assert started(snapshot) == set()


def test_job_at_its_limit_does_not_block_others() -> None:
    pending = [request("first", 4, "exp"), request("other", 4)]
    jobs = [job("exp", 10, max_slots=2), job("other", 50)]
    snapshot = pool(agents(8), pending=pending, jobs=jobs)
    plan = decide(snapshot, NOW)
    assert [s.allocation_id for s in plan.start] == ["other"]
    assert next(iter(plan.waiting.values())).code is WaitCode.MAX_SLOTS
    assert next(iter(plan.waiting.values())).sentence.startswith(
        "needs 4 slots, and its job may hold 2 (max_slots);"
    )


def test_job_at_its_limit_waits_for_its_own_trials() -> None:
    runs = [running("t1", "exp", a1=1), running("t2", "exp", a1=1)]
    snapshot = pool(
        agents(4), pending=[request("t3", 1, "exp")], running=runs, jobs=[job("exp", max_slots=2)]
    )
    (waiting,) = decide(snapshot, NOW).waiting.values()
    assert waiting.sentence.startswith(
        "its job may hold 2 slots (max_slots) and holds 2; it starts"
    )


@pytest.mark.parametrize("scheduler", ["priority", "round_robin"])
def test_the_newest_trials_leave_when_the_limit_is_lowered(scheduler: SchedulerType) -> None:
    runs = [replace(running(f"t{n}", "exp", a1=1), requested_at=float(n)) for n in range(4)]
    snapshot = pool(agents(4), running=runs, jobs=[job("exp", max_slots=2)], scheduler=scheduler)
    assert preempted(snapshot) == ["t3", "t2"]
    assert {p.reason for p in decide(snapshot, NOW).preempt} == {PreemptReason.MAX_SLOTS}
    assert preempted(apply(snapshot, decide(snapshot, NOW))) == []


def test_containers_without_slots_do_not_count() -> None:
    pending = [request("board", 0, "exp")]
    snapshot = pool(agents(1), pending=pending, jobs=[job("exp", max_slots=0)])
    assert started(snapshot) == {"board"}


def test_preemption_is_bounded_by_the_limit() -> None:
    busy = [running(f"low{n}", a1=1) for n in range(4)]
    jobs = [
        *(job(r.job.id, 90, position=n) for n, r in enumerate(busy)),
        job("exp", 1, max_slots=2),
    ]
    pending = [request(f"t{n}", 1, "exp") for n in range(4)]
    snapshot = pool(agents(4), pending=pending, running=busy, jobs=jobs, preemption=True)
    assert preempted(snapshot) == ["low3", "low2"]
