"""The priority scheduler: order, preemption, backfill."""

from dataclasses import replace
from decimal import Decimal

import pytest
from det_controlplane.core.schedule import (
    Job,
    PoolSnapshot,
    PreemptReason,
    Request,
    Running,
    WaitCode,
    decide,
    jobs_ahead,
)

from tests.support.schedules import (
    NOW,
    agent,
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


class Tasks:
    """Tasks written as in the vectors, `50:4`: priority and slots; submitted in the order written."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []

    def pending(self, *tasks: str) -> list[Request]:
        return [request(self._job(task), int(task.split(":")[1])) for task in tasks]

    def running(self, task: str, on: str) -> Running:
        return running(self._job(task), **{on: int(task.split(":")[1])})

    def _job(self, task: str) -> str:
        twins = sum(j.id.split("#")[0] == task for j in self.jobs)
        id = f"{task}#{twins + 1}" if twins else task
        self.jobs.append(job(id, int(task.split(":")[0]), position=len(self.jobs)))
        return id


def test_what_fits_in_one_priority_starts_and_the_rest_waits() -> None:
    tasks = Tasks()
    pending = tasks.pending("50:4", "50:1", "40:1", "40:0", "40:4", "50:0")
    snapshot = pool(agents(4, 4), pending=pending, jobs=tasks.jobs)
    assert started(snapshot) == {"50:1", "40:1", "40:0", "40:4", "50:0"}
    assert list(decide(snapshot, NOW).waiting) == ["50:4"]


def test_without_preemption_a_task_that_never_fits_blocks_all_lower_priorities() -> None:
    tasks = Tasks()
    pending = tasks.pending("50:4", "50:1", "40:12")
    plan = decide(pool(agents(4, 4), pending=pending, jobs=tasks.jobs), NOW)
    assert plan.start == ()
    codes = {id: reason.code for id, reason in plan.waiting.items()}
    assert codes == {
        "40:12": WaitCode.TOO_LARGE,
        "50:4": WaitCode.BEHIND_HIGHER_PRIORITY,
        "50:1": WaitCode.BEHIND_HIGHER_PRIORITY,
    }


def test_lower_priorities_wait_until_the_whole_priority_above_has_started() -> None:
    tasks = Tasks()
    pending = tasks.pending("50:1", "40:1", "40:1", "40:1", "40:2")
    snapshot = pool(agents(4), pending=pending, jobs=tasks.jobs)
    first = decide(snapshot, NOW)
    assert set(starts(first)) == {"40:1", "40:1#2", "40:1#3"}
    snapshot = apply(snapshot, first)
    assert started(snapshot) == set()
    assert started(end(snapshot, "40:1", "40:1#2", "40:1#3")) == {"40:2", "50:1"}


def test_a_lower_priority_leaves_for_a_higher_one_and_nothing_starts_before_it_has_left() -> None:
    tasks = Tasks()
    busy = [tasks.running("45:4", "a1"), tasks.running("40:4", "a2")]
    pending = tasks.pending("50:1", "40:4", "40:8")
    snapshot = pool(agents(4, 4), pending=pending, running=busy, jobs=tasks.jobs, preemption=True)
    assert started(snapshot) == set()
    assert preempted(snapshot) == ["45:4"]


def test_preemptible_tasks_are_backfilled_behind_a_priority_that_waits() -> None:
    tasks = Tasks()
    busy = [tasks.running("55:1", "a1"), tasks.running("40:4", "a2")]
    pending = tasks.pending("50:1", "45:1", "40:2", "40:8")
    snapshot = pool(agents(4, 4), pending=pending, running=busy, jobs=tasks.jobs, preemption=True)
    plan = decide(snapshot, NOW)
    assert {s.allocation_id: s.backfilled for s in plan.start} == {"45:1": True, "40:2": False}
    assert preempted(snapshot) == ["55:1"]


def test_containers_without_slots_preempt_each_other_at_the_limit() -> None:
    tasks = Tasks()
    busy = [tasks.running("45:0", "a1"), tasks.running("40:0", "a2")]
    on = [agent("a1", 4, aux_limit=1), agent("a2", 4, aux_limit=1)]
    pending = tasks.pending("50:0", "40:0")
    snapshot = pool(on, pending=pending, running=busy, jobs=tasks.jobs, preemption=True)
    assert preempted(snapshot) == ["45:0"]
    assert started(snapshot) == set()


def same_priority(slots: int) -> PoolSnapshot:
    return pool(
        agents(1, 4),
        pending=[request("candidate", slots)],
        running=[running("job1", a1=1), running("job2", a2=4)],
        jobs=[
            job("job1", position=1),
            job("job2", position=2),
            job("candidate", position=Decimal("1.5")),
        ],
        preemption=True,
        allow_heterogeneous_fits=True,
    )


def test_in_one_priority_only_jobs_behind_the_candidate_leave_for_it() -> None:
    assert preempted(same_priority(4)) == ["job2"]


def test_nobody_leaves_when_the_jobs_behind_the_candidate_hold_too_little() -> None:
    assert preempted(same_priority(8)) == []
    assert preempted(same_priority(5)) == []


def test_a_moved_job_takes_the_slots_of_the_one_it_overtook() -> None:
    jobs = [job("first", position=Decimal(1)), job("moved", position=Decimal("0.5"))]
    snapshot = pool(
        agents(1),
        pending=[request("moved", 1)],
        running=[running("first", a1=1)],
        jobs=jobs,
        preemption=True,
    )
    assert preempted(snapshot) == ["first"]


def test_only_as_many_leave_as_the_candidate_needs() -> None:
    busy = [running(f"low{n}", **{f"a{n}": 4}) for n in range(1, 5)]
    jobs = [*(job(r.job.id, 60, position=n) for n, r in enumerate(busy)), job("high", 10)]
    snapshot = pool(
        agents(4, 4, 4, 4), pending=[request("high", 4)], running=busy, jobs=jobs, preemption=True
    )
    (victim,) = decide(snapshot, NOW).preempt
    assert (victim.allocation_id, victim.reason) == ("low4", PreemptReason.HIGHER_PRIORITY)


def test_a_gang_preempts_what_stands_on_the_agents_it_needs_and_nothing_else() -> None:
    busy = [running(f"low{n}", **{f"a{n}": 1}) for n in range(1, 4)]
    jobs = [*(job(r.job.id, 60, position=n) for n, r in enumerate(busy)), job("high", 10)]
    snapshot = pool(
        agents(4, 4, 4), pending=[request("high", 8)], running=busy, jobs=jobs, preemption=True
    )
    assert preempted(snapshot) == ["low3", "low2"]


@pytest.mark.parametrize("mixes", [False, True])
def test_a_gang_preempts_in_the_place_where_the_least_important_have_to_leave(mixes: bool) -> None:
    places = {"a1": "aws", "a2": "gcp", "a3": "aws", "a4": "gcp"}
    on = [agent(id, 4, place=place) for id, place in places.items()]
    busy = [running(f"low{n}", **{f"a{n}": 1}) for n in range(1, 5)]
    jobs = [*(job(r.job.id, 60, position=n) for n, r in enumerate(busy)), job("high", 10)]
    snapshot = pool(
        on, pending=[request("high", 8)], running=busy, jobs=jobs, preemption=True,
        allow_heterogeneous_fits=mixes,
    )  # fmt: skip
    assert preempted(snapshot) == ["low4", "low2"]


def test_two_candidates_do_not_count_on_the_same_victim() -> None:
    busy = [running("low1", a1=4), running("low2", a2=4)]
    jobs = [job("low1", 60, position=1), job("low2", 60, position=2)]
    pending = [request("high1", 4), request("high2", 4)]
    jobs += [job("high1", 10, position=3), job("high2", 10, position=4)]
    snapshot = pool(agents(4, 4), pending=pending, running=busy, jobs=jobs, preemption=True)
    assert sorted(preempted(snapshot)) == ["low1", "low2"]


def test_what_cannot_be_preempted_stays() -> None:
    notebook = replace(running("nb", a1=4), preemptible=False)
    snapshot = pool(
        agents(4),
        pending=[request("high", 4)],
        running=[notebook],
        jobs=[job("nb", 90), job("high", 1)],
        preemption=True,
    )
    assert preempted(snapshot) == []


def test_who_holds_only_disabled_slots_is_not_asked_to_leave_for_them() -> None:
    holds = replace(running("low", a1=0), slots=1)
    snapshot = pool(
        [agent("a1", 0), agent("a2", 1, enabled=False)],
        pending=[request("high", 1)],
        running=[holds],
        jobs=[job("low", 50), job("high", 1)],
        preemption=True,
    )
    assert preempted(snapshot) == []


def test_the_order_of_a_gangs_seats_does_not_choose_the_agent() -> None:
    gang, other = {"a1": 4, "a2": 4}, {"a2": 4, "a1": 4}
    plans = [
        decide(
            pool(
                agents(4, 4),
                pending=[request("high", 4)],
                running=[running("low", **seats)],
                jobs=[job("low", 50), job("high", 1)],
                preemption=True,
            ),
            NOW,
        )
        for seats in (gang, other)
    ]
    assert plans[0].waiting == plans[1].waiting
    assert "is next on a1" in plans[0].waiting["high"].sentence


def test_an_earlier_victim_is_not_asked_again_and_nobody_else_is_asked() -> None:
    busy = [running("low1", a1=4), running("low2", a2=4)]
    jobs = [job("low1", 60, position=1), job("low2", 60, position=2), job("high", 10)]
    snapshot = pool(
        agents(4, 4), pending=[request("high", 4)], running=busy, jobs=jobs, preemption=True
    )
    snapshot = apply(snapshot, decide(snapshot, NOW))
    again = decide(snapshot, NOW)
    assert (again.start, again.preempt) == ((), ())
    assert again.waiting["high"].code is WaitCode.WAITING_FOR_PREEMPTION


def test_lower_priorities_do_not_start_while_victims_are_leaving() -> None:
    """Otherwise they would take the slots that come free one by one."""
    busy = [running("low1", a1=2), running("low2", a1=2)]
    jobs = [job("low1", 60, position=1), job("low2", 60, position=2)]
    jobs += [job("high", 10), job("small", 50)]
    snapshot = pool(
        agents(4),
        pending=[request("high", 4), request("small", 1)],
        running=busy,
        jobs=jobs,
        preemption=True,
    )
    snapshot = apply(snapshot, decide(snapshot, NOW))
    assert started(end(snapshot, "low1")) == set()
    assert started(end(snapshot, "low1", "low2")) == {"high"}


def test_nothing_of_the_same_priority_starts_on_agents_that_are_being_vacated() -> None:
    busy = [running("low1", a1=2), running("low2", a1=2)]
    jobs = [job("low1", 60, position=1), job("low2", 60, position=2)]
    jobs += [job("high", 10, position=3), job("small", 10, position=4)]
    snapshot = pool(
        agents(4),
        pending=[request("high", 4), request("small", 2)],
        running=busy,
        jobs=jobs,
        preemption=True,
    )
    snapshot = end(apply(snapshot, decide(snapshot, NOW)), "low1")
    assert started(snapshot) == set()


def test_a_task_that_cannot_be_preempted_is_not_backfilled() -> None:
    pending = [request("high", 8), request("notebook", 1, preemptible=False)]
    snapshot = pool(
        agents(4), pending=pending, jobs=[job("high", 10), job("notebook", 50)], preemption=True
    )
    assert started(snapshot) == set()


def test_requests_of_one_job_start_in_the_order_they_were_made() -> None:
    pending = [
        request("second", 1, "exp", requested_at=2.0),
        request("first", 1, "exp", requested_at=1.0),
    ]
    assert started(pool(agents(1), pending=pending)) == {"first"}


def test_jobs_ahead_counts_live_jobs_in_scheduler_order() -> None:
    jobs = [job("c", 50), job("a", 10), job("b", 42, position=2)]
    pending = [request("c", 1), request("b", 1)]
    snapshot = pool(agents(4), pending=pending, running=[running("a", a1=4)], jobs=jobs)
    assert jobs_ahead(snapshot) == {"a": 0, "b": 1, "c": 2}
