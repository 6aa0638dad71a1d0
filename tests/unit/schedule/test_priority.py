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


def test_fitting_tasks_of_a_priority_start_and_others_wait() -> None:
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


def test_lower_priority_is_preempted_and_no_task_starts_before_it_ended() -> None:
    tasks = Tasks()
    busy = [tasks.running("45:4", "a1"), tasks.running("40:4", "a2")]
    pending = tasks.pending("50:1", "40:4", "40:8")
    snapshot = pool(agents(4, 4), pending=pending, running=busy, jobs=tasks.jobs, preemption=True)
    assert started(snapshot) == set()
    assert preempted(snapshot) == ["45:4"]


def test_preemptible_tasks_are_backfilled_behind_a_waiting_priority() -> None:
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


def test_only_later_jobs_of_the_same_priority_are_preempted() -> None:
    assert preempted(same_priority(4)) == ["job2"]


def test_no_preemption_if_later_jobs_have_too_few_slots() -> None:
    assert preempted(same_priority(8)) == []
    assert preempted(same_priority(5)) == []


def test_moved_job_preempts_the_job_that_it_overtook() -> None:
    jobs = [job("first", position=Decimal(1)), job("moved", position=Decimal("0.5"))]
    snapshot = pool(
        agents(1),
        pending=[request("moved", 1)],
        running=[running("first", a1=1)],
        jobs=jobs,
        preemption=True,
    )
    assert preempted(snapshot) == ["first"]


def test_preempts_only_as_many_tasks_as_needed() -> None:
    busy = [running(f"low{n}", **{f"a{n}": 4}) for n in range(1, 5)]
    jobs = [*(job(r.job.id, 60, position=n) for n, r in enumerate(busy)), job("high", 10)]
    snapshot = pool(
        agents(4, 4, 4, 4), pending=[request("high", 4)], running=busy, jobs=jobs, preemption=True
    )
    (victim,) = decide(snapshot, NOW).preempt
    assert (victim.allocation_id, victim.reason) == ("low4", PreemptReason.HIGHER_PRIORITY)


def test_gang_preempts_only_tasks_on_the_agents_it_needs() -> None:
    busy = [running(f"low{n}", **{f"a{n}": 1}) for n in range(1, 4)]
    jobs = [*(job(r.job.id, 60, position=n) for n, r in enumerate(busy)), job("high", 10)]
    snapshot = pool(
        agents(4, 4, 4), pending=[request("high", 8)], running=busy, jobs=jobs, preemption=True
    )
    assert preempted(snapshot) == ["low3", "low2"]


@pytest.mark.parametrize("mixes", [False, True])
def test_gang_preempts_in_the_region_with_the_least_important_tasks(mixes: bool) -> None:
    places = {"a1": "aws", "a2": "gcp", "a3": "aws", "a4": "gcp"}
    on = [agent(id, 4, place=place) for id, place in places.items()]
    busy = [running(f"low{n}", **{f"a{n}": 1}) for n in range(1, 5)]
    jobs = [*(job(r.job.id, 60, position=n) for n, r in enumerate(busy)), job("high", 10)]
    snapshot = pool(
        on, pending=[request("high", 8)], running=busy, jobs=jobs, preemption=True,
        allow_heterogeneous_fits=mixes,
    )  # fmt: skip
    assert preempted(snapshot) == ["low4", "low2"]


def test_two_requests_do_not_share_a_preempted_task() -> None:
    busy = [running("low1", a1=4), running("low2", a2=4)]
    jobs = [job("low1", 60, position=1), job("low2", 60, position=2)]
    pending = [request("high1", 4), request("high2", 4)]
    jobs += [job("high1", 10, position=3), job("high2", 10, position=4)]
    snapshot = pool(agents(4, 4), pending=pending, running=busy, jobs=jobs, preemption=True)
    assert sorted(preempted(snapshot)) == ["low1", "low2"]


def test_nonpreemptible_task_stays() -> None:
    notebook = replace(running("nb", a1=4), preemptible=False)
    snapshot = pool(
        agents(4),
        pending=[request("high", 4)],
        running=[notebook],
        jobs=[job("nb", 90), job("high", 1)],
        preemption=True,
    )
    assert preempted(snapshot) == []


def test_task_on_disabled_slots_is_not_preempted() -> None:
    holds = replace(running("low", a1=0), slots=1)
    snapshot = pool(
        [agent("a1", 0), agent("a2", 1, enabled=False)],
        pending=[request("high", 1)],
        running=[holds],
        jobs=[job("low", 50), job("high", 1)],
        preemption=True,
    )
    assert preempted(snapshot) == []


def test_order_of_a_gangs_placements_does_not_affect_the_choice() -> None:
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


def test_preempting_task_is_not_preempted_again_and_no_other_is() -> None:
    busy = [running("low1", a1=4), running("low2", a2=4)]
    jobs = [job("low1", 60, position=1), job("low2", 60, position=2), job("high", 10)]
    snapshot = pool(
        agents(4, 4), pending=[request("high", 4)], running=busy, jobs=jobs, preemption=True
    )
    snapshot = apply(snapshot, decide(snapshot, NOW))
    second_plan = decide(snapshot, NOW)
    assert (second_plan.start, second_plan.preempt) == ((), ())
    assert second_plan.waiting["high"].code is WaitCode.WAITING_FOR_PREEMPTION


def test_lower_priorities_do_not_start_while_preempted_tasks_end() -> None:
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


def test_tasks_of_the_same_priority_do_not_start_on_vacated_agents() -> None:
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


def test_requests_of_one_job_start_in_order_of_creation() -> None:
    pending = [
        request("second", 1, "exp", requested_at=2.0),
        request("first", 1, "exp", requested_at=1.0),
    ]
    assert started(pool(agents(1), pending=pending)) == {"first"}
