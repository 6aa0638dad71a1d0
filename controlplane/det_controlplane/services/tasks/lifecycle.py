"""Act on the ends of allocations of tasks that are not trials (core/lifecycle/task.py)."""

from uuid import UUID

from det_controlplane.core.lifecycle.allocation import Exit, end_sentence
from det_controlplane.core.lifecycle.task import TaskKind, after_exit, runs_again
from det_controlplane.db.cluster import outbox
from det_controlplane.db.logs import logs
from det_controlplane.db.logs.logs import NamedLine
from det_controlplane.db.scheduling import allocations
from det_controlplane.db.scheduling.allocations import AllocationRow
from det_controlplane.db.tasks import generic_tasks, tasks
from det_controlplane.services.use_case import Change


def allocation_ended(change: Change, allocation: AllocationRow, exit: Exit) -> None:
    """Start the task again where that is due; anything else ends it, or leaves it paused."""
    tx = change.tx
    ending = tasks.ending(tx, allocation.id)
    failures = allocations.infrastructure_failures(tx, allocation.task_id)
    was_asked = allocation.preempt_at is not None
    if ending.kind is TaskKind.GENERIC:
        task = generic_tasks.lock(tx, allocation.task_id)
        assert task is not None
        after = after_exit(task.state, allocation.state, exit, failures, was_asked=was_asked)
        generic_tasks.set_state(tx, task.id, after.state)
        again, ends = after.runs_again, after.state.terminal
    else:
        again = runs_again(ending.kind, allocation.state, exit, failures, was_asked=was_asked)
        ends = not again
    if again:
        request(
            change, allocation.task_id, allocation.job_id, allocation.run_id + 1, allocation.pool, allocation.slots,
            preempt_timeout_s=allocation.preempt_timeout_s if allocation.preemptible else None,
        )  # fmt: skip
    if ends:
        tasks.end(tx, allocation.task_id, end_sentence(exit, ending.told), change.now)
        change.trial_ended(allocation.task_id)
        if outbox.retry_deletions_of_task(tx, allocation.task_id, change.now):
            change.wake("schedule")


def request(
    change: Change,
    task_id: str,
    job_id: UUID,
    run_id: int,
    pool: str,
    slots: int,
    *,
    preempt_timeout_s: int | None = None,
) -> None:
    """Queue an allocation, and say so in the task's log as trials do; with a timeout it is asked before it is killed."""
    tx, now = change.tx, change.now
    allocations.request_for_task(
        tx, task_id=task_id, job_id=job_id, run_id=run_id, pool=pool, slots=slots, now=now,
        preempt_timeout_s=preempt_timeout_s,
    )  # fmt: skip
    line = NamedLine(task_id, f" (id: {task_id}.{run_id})", before="Scheduling ")
    logs.add_named_lines(tx, [line], now)
    change.queue_changed(pool)
