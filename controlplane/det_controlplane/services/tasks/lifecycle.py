"""Act on ends of allocations of tasks that are not trials (core/lifecycle/task.py), end unused tasks, and delete
expired tasks.
"""

from datetime import datetime, timedelta
from uuid import UUID

from det_controlplane.core.lifecycle.allocation import Exit, Signal, end_sentence
from det_controlplane.core.lifecycle.task import TaskKind, after_exit, outcome, runs_again
from det_controlplane.core.numerals import shown_duration
from det_controlplane.db.cluster import outbox
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.logs import logs
from det_controlplane.db.logs.logs import NamedLine
from det_controlplane.db.scheduling import allocations
from det_controlplane.db.scheduling.allocations import AllocationRow
from det_controlplane.db.schema.enums import EffectKind
from det_controlplane.db.tasks import ended_tasks, generic_tasks, tasks
from det_controlplane.services import use_case
from det_controlplane.services.context import Context
from det_controlplane.services.scheduling import stopping
from det_controlplane.services.use_case import Change

TASKS_AT_ONCE = 100  # tasks a look
LINES_AT_ONCE = 50_000  # of their logs


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
        sentence = end_sentence(exit, ending.told)
        tasks.end(tx, allocation.task_id, sentence, outcome(exit), change.now)
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


def end_idle_tasks(ctx: Context) -> None:
    with ctx.db.autocommit() as tx:
        idle_tasks = tasks.idle(tx, ctx.now())
    for task in idle_tasks:
        with use_case.change(ctx) as changed:
            allocation = allocations.lock(changed.tx, task.allocation_id)
            # Somebody may have come back meanwhile.
            if allocation is not None and task in tasks.idle(changed.tx, changed.now):
                reason = f"nobody used it for {shown_duration(task.timeout_s)}"
                stopping.stop(changed, [allocation], Signal.KILL, reason)


def next_idle_end(tx: Tx) -> datetime | None:
    return tasks.next_idle(tx)


def delete_expired_tasks(ctx: Context) -> bool:
    """Delete some expired tasks with their logs and files. Return whether more may be expired.

    The cluster sets how long commands, notebooks, shells, TensorBoards and generic tasks stay after their end."""
    days = ctx.config.retention_policy.task_retention_days
    if days <= 0:
        return False
    with use_case.change(ctx) as changed:
        ids = ended_tasks.past(changed.tx, changed.now - timedelta(days=days), TASKS_AT_ONCE)
        if not ids:
            return False
        # A long log goes in parts, and its task with the last of them.
        if ended_tasks.delete_logs(changed.tx, ids, LINES_AT_ONCE) == LINES_AT_ONCE:
            return True
        for key in ended_tasks.delete(changed.tx, ids):
            changed.later(EffectKind.DELETE_OBJECT, key=key)
    return len(ids) == TASKS_AT_ONCE
