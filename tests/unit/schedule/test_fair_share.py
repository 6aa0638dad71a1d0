"""Fair share: slots in proportion to weights."""

from dataclasses import replace
from typing import Any

from det_controlplane.core.placement.model import Agent
from det_controlplane.core.schedule import (
    Job,
    PoolSnapshot,
    PreemptReason,
    Request,
    Running,
    WaitCode,
    decide,
)

from tests.support.schedules import (
    NOW,
    agents,
    apply,
    end,
    job,
    pool,
    preempted,
    request,
    running,
    started,
    starts,
)


def shared(
    on: tuple[Agent, ...],
    *,
    pending: list[Request],
    jobs: list[Job] | None = None,
    running: tuple[Running, ...] = (),
    **settings: Any,
) -> PoolSnapshot:
    return pool(on, pending=pending, running=running, jobs=jobs, scheduler="fair_share", **settings)


def tasks(job_id: str, *slots: int) -> list[Request]:
    return [request(f"{job_id}.{n}", size, job_id) for n, size in enumerate(slots, start=1)]


def count(snapshot: PoolSnapshot, job_id: str) -> int:
    return sum(id.startswith(f"{job_id}.") for id in started(snapshot))


def test_slots_unused_by_a_limited_job_go_to_others() -> None:
    jobs = [job("g1", position=1, max_slots=1), job("g2", position=2)]
    pending = tasks("g1", 1, 1, 1, 1) + tasks("g2", 1, 1, 1, 1)
    snapshot = shared(agents(4), pending=pending, jobs=jobs)
    assert (count(snapshot, "g1"), count(snapshot, "g2")) == (1, 3)


def test_slots_are_shared_in_proportion_to_weight() -> None:
    jobs = [job("g1", position=1, weight=10), job("g2", position=2, weight=30)]
    pending = tasks("g1", *[1] * 3) + tasks("g2", *[1] * 7)
    snapshot = shared(agents(4, 4), pending=pending, jobs=jobs)
    assert (count(snapshot, "g1"), count(snapshot, "g2")) == (2, 6)


def test_oldest_allocations_of_a_job_above_its_limit_are_preempted() -> None:
    holders = tuple(
        replace(running(f"t{n}", "g1", a1=1), requested_at=float(n)) for n in range(1, 5)
    )
    snapshot = shared(agents(4), pending=[], running=holders, jobs=[job("g1", max_slots=2)])
    assert preempted(snapshot) == ["t1", "t2"]
    assert {p.reason for p in decide(snapshot, NOW).preempt} == {PreemptReason.MAX_SLOTS}


def test_oldest_job_starts_if_all_shares_are_too_small() -> None:
    assert started(shared(agents(2), pending=tasks("g1", 2) + tasks("g2", 2))) == {"g1.1"}


def test_request_larger_than_the_pool_has_no_share() -> None:
    snapshot = shared(agents(4), pending=tasks("g1", 5) + tasks("g2", 4))
    assert started(snapshot) == {"g2.1"}
    assert next(iter(decide(snapshot, NOW).waiting.values())).code is WaitCode.TOO_LARGE


def test_running_slots_count_towards_the_share() -> None:
    pending = [*tasks("g1", 3), *tasks("g2", 1), *tasks("g3", 4), *tasks("g4", 1)]
    snapshot = shared(
        agents(4, 3),
        pending=pending,
        running=(running("old", "g2", a2=1),),
        jobs=[job(f"g{n}", position=n) for n in range(1, 5)],
    )
    assert started(snapshot) == {"g1.1", "g2.1", "g4.1"}


def test_youngest_job_is_preempted_for_an_older_job_with_blocked_agents() -> None:
    both, first = frozenset({"a1", "a2"}), frozenset({"a1"})
    pending = [
        request("t0", 1, blocked_agents=both),
        request("t2", 1, blocked_agents=first),
    ]
    snapshot = shared(
        agents(1, 1),
        pending=pending,
        running=(running("t1", a1=1), running("t3", a2=1)),
        jobs=[job(f"t{n}", position=n) for n in range(4)],
    )
    plan = decide(snapshot, NOW)
    assert [p.allocation_id for p in plan.preempt] == ["t3"]
    assert starts(decide(end(apply(snapshot, plan), "t3"), NOW)) == {"t2": {"a2": 1}}


def test_nonpreemptible_slots_count_towards_the_share_of_their_job() -> None:
    notebook = replace(running("nb", "g1", a1=3), preemptible=False)
    pending = tasks("g1", 1, 1) + tasks("g2", *[1] * 5)
    snapshot = shared(agents(8), pending=pending, running=(notebook,))
    assert (count(snapshot, "g1"), count(snapshot, "g2")) == (1, 4)


def test_running_task_stays_if_the_next_task_exceeds_the_share() -> None:
    holders = (running("small", "g1", a1=1),)
    pending = tasks("g1", 4) + tasks("g2", 1, 1, 1)
    assert preempted(shared(agents(4), pending=pending, running=holders)) == []


def test_containers_without_slots_start_regardless_of_shares() -> None:
    holders = (running("big", "g1", a1=4),)
    assert started(shared(agents(4), pending=tasks("g1", 0, 0), running=holders)) == {
        "g1.1",
        "g1.2",
    }


def test_waiting_job_has_its_fair_share_in_its_reason() -> None:
    snapshot = shared(agents(1), pending=tasks("g1", 1) + tasks("g2", 1))
    plan = decide(snapshot, NOW)
    assert [reason.code for reason in plan.waiting.values()] == [WaitCode.FAIR_SHARE]
    assert "is 0.5 slots and it holds 0" in next(iter(plan.waiting.values())).sentence


def gang_and_newcomer(weight: float, *slots: int, gang_position: int = 1) -> PoolSnapshot:
    """Return a pool where a job of this weight runs on all sixteen slots, and a job of weight 1 waits."""
    jobs = [job("gang", position=gang_position, weight=weight), job("new", position=2)]
    holders = (running("g", "gang", a1=8, a2=8),)
    return shared(agents(8, 8), pending=tasks("new", *slots), running=holders, jobs=jobs)


def test_a_gang_is_not_broken_for_a_share_that_it_cannot_use() -> None:
    for weight in (100, 1):
        snapshot = gang_and_newcomer(weight, 1)
        assert preempted(snapshot) == []
        assert decide(snapshot, NOW).waiting["new.1"].code is WaitCode.FAIR_SHARE


def test_gang_runs_while_half_of_its_slots_are_within_the_share() -> None:
    assert preempted(gang_and_newcomer(1, *[1] * 8)) == []
    assert preempted(gang_and_newcomer(1, *[1] * 16)) == []
    assert preempted(gang_and_newcomer(1, *[1] * 16, gang_position=3)) == []


def test_gang_is_preempted_if_its_share_is_below_half_its_slots() -> None:
    snapshot = gang_and_newcomer(0.5, *[1] * 16)
    plan = decide(snapshot, NOW)
    assert [p.allocation_id for p in plan.preempt] == ["g"]
    after = end(apply(snapshot, plan), "g")
    assert len(decide(after, NOW).start) == 16


def test_younger_jobs_preempt_only_slots_beyond_the_share() -> None:
    holders = tuple(
        replace(running(f"t{n}", "heavy", a1=1), requested_at=float(n)) for n in range(4)
    )
    jobs = [job("heavy", position=1, weight=3), *(job(f"g{n}", position=n) for n in range(2, 6))]
    pending = [request(f"g{n}", 1) for n in range(2, 6)]
    snapshot = shared(agents(4), pending=pending, running=holders, jobs=jobs)
    assert preempted(snapshot) == ["t0", "t1"]


def test_rounding_does_not_preempt_slots_of_a_heavier_job() -> None:
    holders = (running("t1", "heavy", a1=1), running("t2", "heavy", a1=1))
    jobs = [job("heavy", position=1, weight=3), job("light", position=2)]
    snapshot = shared(agents(2), pending=tasks("light", 1), running=holders, jobs=jobs)
    assert preempted(snapshot) == []


def test_a_gang_of_a_large_share_does_not_starve_behind_small_requests() -> None:
    jobs = [job("small", position=1), job("gang", position=2)]
    snapshot = shared(agents(8, 8), pending=tasks("small", 1) + tasks("gang", 16), jobs=jobs)
    assert started(snapshot) == {"gang.1"}


def test_small_requests_with_a_waiting_gang_do_not_preempt_a_gang() -> None:
    jobs = [job(id, position=n) for n, id in enumerate(["older", "small1", "small2", "gang"])]
    pending = tasks("older", 16) + tasks("small1", 1) + tasks("small2", 1)
    holders = (running("g", "gang", a1=8, a2=8),)
    snapshot = shared(agents(8, 8, 8, 8), pending=pending, running=holders, jobs=jobs)
    plan = decide(snapshot, NOW)
    assert plan.preempt == ()
    assert set(starts(plan)) == {"older.1"}


def test_no_preemption_for_a_request_that_cannot_use_the_slots() -> None:
    holders = tuple(running(f"t{n}", "old", a1=1) for n in range(4))
    pending = [request("new", 1, blocked_agents=frozenset({"a1"}))]
    fixed = replace(running("nb", a2=1), preemptible=False, releasing=True)
    snapshot = shared(agents(4, 1), pending=pending, running=(*holders, fixed))
    plan = decide(snapshot, NOW)
    assert plan.preempt == ()
    assert plan.waiting["new"].code is WaitCode.WAITING_FOR_PREEMPTION


def test_slots_unusable_by_a_gang_go_to_others_by_weight() -> None:
    jobs = [job("gang", position=1), job("g1", position=2, weight=3), job("g2", position=3)]
    pending = tasks("gang", 16) + tasks("g1", *[1] * 16) + tasks("g2", *[1] * 16)
    snapshot = shared(agents(8, 8), pending=pending, jobs=jobs)
    assert (count(snapshot, "g1"), count(snapshot, "g2")) == (12, 4)


def test_plan_is_stable_for_many_jobs_with_too_small_shares() -> None:
    pending = [request(f"t{n}", 16) for n in range(2_000)]
    snapshot = shared(agents(*[8] * 100), pending=pending)
    assert sum(len(s) for s in starts(decide(snapshot, NOW)).values()) == 100
