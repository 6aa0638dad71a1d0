"""Rows of allocations."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    Select,
    Text,
    TextClause,
    Update,
    any_,
    bindparam,
    func,
    insert,
    literal_column,
    select,
    text,
    update,
)

from det_controlplane.core.lifecycle.allocation import AllocationState, Exit
from det_controlplane.core.schedule import WaitCode
from det_controlplane.db import schema
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.scheduling import slots


@dataclass(slots=True)
class AllocationRow:
    id: str
    task_id: str
    trial_id: int | None
    job_id: UUID
    run_id: int
    pool: str
    slots: int
    state: AllocationState
    epoch: int
    preemptible: bool
    ready: bool
    preempt_at: datetime | None
    preempt_timeout_s: int
    preempt_acked: bool
    killed: bool
    kill_before_exit: bool
    min_slots: int | None  # of an elastic gang
    experiment_id: int | None


_a = schema.allocations.c
# Written out: the planner matches partial indexes with constants, not with parameters.
_LIVE = _a.state != literal_column("'TERMINATED'")
_QUEUED = _a.state == literal_column("'QUEUED'")
_SELECT = select(
    *_a["id", "task_id", "trial_id", "job_id", "run_id", "pool", "slots", "state", "epoch", "preemptible", "ready",
       "preempt_at", "preempt_timeout_s", "preempt_acked", "killed", "kill_before_exit", "min_slots"],
    schema.tasks.c.experiment_id,
).join_from(schema.allocations, schema.tasks)  # fmt: skip
_BY_ID = _SELECT.where(_a.id == bindparam("id"))
_LOCK = _BY_ID.with_for_update(of=schema.allocations)
_LOCK_IF_FREE = _BY_ID.with_for_update(of=schema.allocations, skip_locked=True)
_LOOKS = 3
# An array instead of IN, so that one prepared statement serves any number of tasks. The order avoids deadlocks.
_LIVE_OF_TASKS = (
    _SELECT.where(_a.task_id == any_(bindparam("task_ids", type_=ARRAY(Text))), _LIVE)
    .order_by(_a.id)
    .with_for_update(of=schema.allocations)
)


def by_id(tx: Tx, allocation_id: str) -> AllocationRow | None:
    return _one(tx, _BY_ID, {"id": allocation_id})


def lock(tx: Tx, allocation_id: str) -> AllocationRow | None:
    return _one(tx, _LOCK, {"id": allocation_id})


def lock_if_free(tx: Tx, allocation_id: str) -> AllocationRow | None:
    """Lock an allocation; None as well where another transaction has locked it."""
    return _one(tx, _LOCK_IF_FREE, {"id": allocation_id})


def live_of_task(tx: Tx, task_id: str) -> AllocationRow | None:
    return next(iter(live_of_tasks(tx, [task_id])), None)


def live_of_tasks(tx: Tx, task_ids: Sequence[str]) -> list[AllocationRow]:
    """Lock and return the live allocations of tasks. A task has at most one."""
    rows: Iterable[Any] = tx.execute(_LIVE_OF_TASKS, {"task_ids": list(task_ids)})
    return [AllocationRow(*row) for row in rows]


def live_of_restarted_task(tx: Tx, task_id: str) -> AllocationRow | None:
    """Return the live allocation of a task that is restarted right after its run was lost.

    A statement that waited for the end of the lost run sees neither run: the first has ended, and the second began
    after the statement."""
    rows = (live_of_task(tx, task_id) for _ in range(_LOOKS))
    return next((row for row in rows if row is not None), None)


def _one(tx: Tx, statement: Select[Any], params: dict[str, str]) -> AllocationRow | None:
    row = tx.execute(statement, params).first()
    return None if row is None else AllocationRow(*row)


@dataclass(frozen=True, slots=True)
class Delay:
    """Hold the time until which an allocation is not scheduled, and the reason."""

    until: datetime
    reason: str

    def params(self, now: datetime) -> dict[str, Any]:
        return {
            "not_before": self.until, "wait_code": WaitCode.BACKING_OFF.value,
            "wait_reason": self.reason, "wait_since": now,
        }  # fmt: skip


NO_DELAY = dict.fromkeys(("not_before", "wait_code", "wait_reason", "wait_since"))


def request_for_task(
    tx: Tx,
    *,
    task_id: str,
    job_id: UUID,
    run_id: int,
    pool: str,
    slots: int,
    now: datetime,
    preempt_timeout_s: int | None = None,
) -> None:
    """Queue an allocation of a task other than a trial. With a timeout, it can be preempted from its start."""
    values = {
        "id": f"{task_id}.{run_id}", "task_id": task_id, "job_id": job_id, "run_id": run_id,
        "pool": pool, "slots": slots, "state": AllocationState.QUEUED, "preemptible": False,
        "single_agent": True, "requested_at": now,
    }  # fmt: skip
    if preempt_timeout_s is not None:
        values |= {"preemptible": True, "ready": True, "preempt_timeout_s": preempt_timeout_s}
    tx.execute(insert(schema.allocations), values)


_PREEMPT = text("""
    UPDATE allocations SET preempt_at = :now, preempt_reason = :reason,
        kill_at = least(kill_at, cast(:now AS timestamptz) + make_interval(secs => preempt_timeout_s))
    WHERE id = ANY(cast(:ids AS text[])) AND state <> 'TERMINATED' AND preempt_at IS NULL AND NOT killed
""")
# `kill_before_exit` is true only while no container has failed.
_KILL = text("""
    UPDATE allocations a SET killed = true, kill_at = NULL,
        preempt_reason = CASE WHEN :decided THEN :reason ELSE coalesce(preempt_reason, :reason) END,
        kill_before_exit = (SELECT coalesce(bool_or(c.state <> 'TERMINATED' AND NOT c.daemon), false)
                                AND NOT coalesce(bool_or(c.failure IS NOT NULL OR c.exit_code <> 0), false)
                            FROM containers c WHERE c.allocation_id = a.id AND c.epoch = a.epoch)
    WHERE a.id = :id AND a.state <> 'TERMINATED' AND NOT a.killed
""")
# Trials restart by themselves. Tasks that cannot pause cannot continue either.
_KEEP = text("""
    UPDATE allocations a SET preempt_at = coalesce(preempt_at, :now) FROM tasks k
    WHERE a.id = :id AND k.id = a.task_id AND a.state <> 'TERMINATED' AND NOT a.killed
      AND (k.kind = 'CHECKPOINT_GC' OR (k.kind = 'GENERIC' AND NOT k.no_pause))
""")
_END = text("""
    UPDATE allocations SET state = 'TERMINATED', ended_at = :now, exit_kind = cast(:kind AS exit_kind), exit_reason = :reason, exit_code = :exit_code,
        pull_failed = :pull_failed, setback = :setback, not_before = NULL, kill_at = NULL, token_expires_at = :token_expires_at
    WHERE id = :id AND state <> 'TERMINATED' RETURNING coalesce(preempt_reason, '')
""")


# Tokens of lost containers have an expiry of their own already.
_EXPIRE_TOKENS = text("""
    UPDATE sessions SET expires_at = :at WHERE allocation_id = :id AND revoked_at IS NULL AND expires_at IS NULL
""")
_PROGRESS = text("""
    UPDATE allocations SET state = cast(:state AS allocation_state),
        pull_started_at = CASE WHEN :state = 'PULLING' THEN coalesce(pull_started_at, :now) ELSE pull_started_at END,
        pull_ended_at = CASE WHEN :state IN ('STARTING', 'RUNNING') AND pull_started_at IS NOT NULL
                        THEN coalesce(pull_ended_at, :now) ELSE pull_ended_at END,
        started_at = CASE WHEN :state = 'RUNNING' THEN coalesce(started_at, :now) ELSE started_at END,
        workspace_name = CASE WHEN :state = 'RUNNING' AND started_at IS NULL
            THEN (SELECT w.name FROM jobs j JOIN workspaces w ON w.id = j.workspace_id WHERE j.id = job_id)
            ELSE workspace_name END
    WHERE id = :id AND state <> 'TERMINATED' AND state <> 'WAITING'
""")
_DATA_TIME = text("UPDATE allocations SET data_s = greatest(data_s, :seconds) WHERE id = :id")
_UPDATE_LIVE = update(schema.allocations).where(_a.id == bindparam("allocation_id"), _LIVE)
_READY = _UPDATE_LIVE.where(~_a.ready).values(ready=True)
_ACKNOWLEDGE = _UPDATE_LIVE.values(preempt_acked=True)
_WAIT = _UPDATE_LIVE.where(
    _a.state.in_([AllocationState.STARTING, AllocationState.RUNNING])
).values(state=AllocationState.WAITING)
_KILL_BY = _UPDATE_LIVE.where(~_a.killed).values(
    kill_at=func.least(_a.kill_at, bindparam("at", type_=_a.kill_at.type)),
    preempt_reason=func.coalesce(_a.preempt_reason, bindparam("reason")),
)
_NOTE_PROGRESS = text("""
    UPDATE allocations SET progress_at = greatest(coalesce(progress_at, :now), :at)
    WHERE id = :id AND state <> 'TERMINATED' RETURNING progress_at
""")
_MARK_HUNG = text("""
    UPDATE allocations SET hung = true
    WHERE id = :id AND state <> 'TERMINATED' AND NOT hung AND NOT killed AND preempt_at IS NULL
        AND progress_at <= :before
""")
_HANGS = text("""
    SELECT CASE WHEN bool_or(hung AND run_id = :run_id) THEN count(*) FILTER (WHERE hung) ELSE 0 END
    FROM allocations WHERE task_id = :task_id
""")
_HANG_TIMEOUT = text("""
    SELECT (e.config#>>'{resources,hang_timeout}')::double precision FROM allocations a
    JOIN trials t ON t.id = a.trial_id JOIN experiments e ON e.id = t.experiment_id WHERE a.id = :id
""")
_EXPECT_POLLS = _UPDATE_LIVE.where(_a.poll_by.is_(None)).values(
    poll_by=bindparam("until", type_=_a.poll_by.type)
)
_STOP_EXPECTING_POLLS = _UPDATE_LIVE.values(poll_by=None)
_EXCUSE = (
    update(schema.allocations)
    .where(_a.task_id == bindparam("task"), _LIVE, _a.preempt_at.is_not(None))
    .values(preempt_acked=True)
)
_MOVE = (
    update(schema.allocations)
    .where(_a.job_id == bindparam("job"), _QUEUED)
    .values(
        pool=bindparam("pool"),
        not_before=None,
        wait_code=None,
        wait_reason=None,
        wait_reason_id=None,
        wait_since=None,
    )
)


def preempt(tx: Tx, allocation_ids: Sequence[str], reason: str, now: datetime) -> None:
    """Ask allocations to save a checkpoint and stop. They are killed if that takes too long."""
    tx.execute(_PREEMPT, {"ids": list(allocation_ids), "reason": reason, "now": now})


def keep_task(tx: Tx, allocation_id: str, now: datetime) -> None:
    """Prepare a restartable task for a kill, so that it continues elsewhere like a preempted one."""
    tx.execute(_KEEP, {"id": allocation_id, "now": now})


def mark_preemption_acknowledged(tx: Tx, task_id: str) -> None:
    """Mark the program as if it had acknowledged that it was asked to leave: its exit is not the end of the trial."""
    tx.execute(_EXCUSE, {"task": task_id})


def set_ready(tx: Tx, allocation_id: str) -> bool:
    """Return False when it was ready before."""
    return _update_allocation(tx, _READY, allocation_id)


def acknowledge_preemption(tx: Tx, allocation_id: str) -> bool:
    return _update_allocation(tx, _ACKNOWLEDGE, allocation_id)


def set_waiting(tx: Tx, allocation_id: str) -> bool:
    return _update_allocation(tx, _WAIT, allocation_id)


def kill_by(tx: Tx, allocation_id: str, at: datetime, reason: str) -> bool:
    """Set the time at which an allocation that is asked to end is killed."""
    return _update_allocation(tx, _KILL_BY, allocation_id, at=at, reason=reason)


def note_progress(tx: Tx, allocation_id: str, at: datetime, now: datetime) -> datetime | None:
    """Store the newest progress of a run. Return the time of the newest progress of all its ranks."""
    values = {"id": allocation_id, "at": at, "now": now}
    return tx.execute(_NOTE_PROGRESS, values).scalar()


def hang_timeout_s(tx: Tx, allocation_id: str) -> float | None:
    value = tx.execute(_HANG_TIMEOUT, {"id": allocation_id}).scalar()
    return None if value is None else float(value)


def mark_hung(tx: Tx, allocation_id: str, before: datetime) -> bool:
    """Mark a run as hung, unless it made progress after `before` or is marked already."""
    return tx.execute(_MARK_HUNG, {"id": allocation_id, "before": before}).rowcount == 1


def hangs(tx: Tx, task_id: str, run_id: int) -> int:
    """Return how many runs of a task hung if this run did, else 0."""
    return int(tx.execute(_HANGS, {"task_id": task_id, "run_id": run_id}).scalar_one())


def expect_polls(tx: Tx, allocation_id: str, until: datetime) -> bool:
    """Set the time until which the agents of a failed elastic gang have to poll."""
    return _update_allocation(tx, _EXPECT_POLLS, allocation_id, until=until)


def stop_expecting_polls(tx: Tx, allocation_id: str) -> bool:
    return _update_allocation(tx, _STOP_EXPECTING_POLLS, allocation_id)


def _update_allocation(tx: Tx, statement: Update, allocation_id: str, **values: object) -> bool:
    return tx.execute(statement, {"allocation_id": allocation_id, **values}).rowcount == 1


def move_queued(tx: Tx, job_id: UUID, pool: str) -> None:
    """Move the waiting allocations of a job to another pool."""
    tx.execute(_MOVE, {"job": job_id, "pool": pool})


def kill(tx: Tx, allocation_id: str, reason: str, *, decided: bool = False) -> bool:
    """Kill an allocation. Return False if it was killed before.

    A decided kill stores its own reason. Any other kill keeps the reason of the earlier stop request."""
    params = {"id": allocation_id, "reason": reason, "decided": decided}
    return tx.execute(_KILL, params).rowcount == 1


def record_data_time(tx: Tx, allocation_id: str, seconds: float) -> None:
    """Store how long an agent loaded data sets. The slowest agent of a gang counts."""
    tx.execute(_DATA_TIME, {"id": allocation_id, "seconds": seconds})


def progress(tx: Tx, allocation_id: str, state: AllocationState, now: datetime) -> None:
    """Set the state of an allocation to the state of its containers."""
    tx.execute(_PROGRESS, {"id": allocation_id, "state": state.value, "now": now})


def end(
    tx: Tx,
    allocation_id: str,
    *,
    reason: str,
    exit: Exit,
    setback: bool,
    now: datetime,
    token_expires_at: datetime,
) -> str | None:
    """End an allocation, free its slots and revoke its tokens. Return the reason of the stop request, or None if it
    had ended before."""
    params = {
        "id": allocation_id, "reason": reason, "exit_code": exit.exit_code, "kind": exit.kind.value,
        "pull_failed": exit.pull_failed, "setback": setback, "now": now, "token_expires_at": token_expires_at,
    }  # fmt: skip
    stop_reason: str | None = tx.execute(_END, params).scalar()
    if stop_reason is None:
        return None
    slots.release(tx, allocation_id)
    tx.execute(_EXPIRE_TOKENS, {"id": allocation_id, "at": token_expires_at})
    return stop_reason


def _newest_in_a_row(column: str) -> TextClause:
    return text(f"""
        SELECT count(*) FROM (
            SELECT bool_and({column}) OVER (ORDER BY run_id DESC) AS so_far
            FROM allocations WHERE task_id = :task_id AND state = 'TERMINATED') x WHERE so_far
    """)


_PULL_FAILURES, _SETBACKS = _newest_in_a_row("pull_failed"), _newest_in_a_row("setback")
_INFRASTRUCTURE = _newest_in_a_row("exit_kind = 'infrastructure'")
# Skip locked allocations: their transactions may wait for allocations that this one locks. A later tick releases them.
_DELAYED = select(_a.id).where(_QUEUED, _a.not_before <= bindparam("now"))
_RELEASE_DELAYED = (
    update(schema.allocations)
    .where(_a.id.in_(_DELAYED.with_for_update(skip_locked=True, key_share=True)))
    .values(not_before=None, wait_code=None, wait_reason=None)
    .returning(_a.pool)
)
_KILLS_DUE = select(_a.id).where(_LIVE, _a.kill_at <= bindparam("now")).order_by(_a.kill_at)
_POLLS_DUE = select(_a.id).where(_LIVE, _a.poll_by <= bindparam("now")).order_by(_a.id)
# One statement, because each tick runs it. Each part reads its own index.
_NEXT_DUE = select(
    func.least(
        select(func.min(_a.kill_at)).where(_LIVE, _a.kill_at.is_not(None)).scalar_subquery(),
        select(func.min(_a.not_before))
        .where(_QUEUED, _a.not_before.is_not(None))
        .scalar_subquery(),
        select(func.min(_a.poll_by)).where(_LIVE, _a.poll_by.is_not(None)).scalar_subquery(),
        select(func.min(schema.pools.c.schedule_at)).scalar_subquery(),
    )
)


def pull_failures(tx: Tx, task_id: str) -> int:
    """Count the task's newest allocations, in a row, that ended because an image could not be pulled."""
    return int(tx.execute(_PULL_FAILURES, {"task_id": task_id}).scalar_one())


def setbacks(tx: Tx, task_id: str) -> int:
    """Count the task's newest allocations, in a row, that infrastructure ended before they were ready."""
    return int(tx.execute(_SETBACKS, {"task_id": task_id}).scalar_one())


def infrastructure_failures(tx: Tx, task_id: str) -> int:
    """Count the task's newest allocations, in a row, that infrastructure ended."""
    return int(tx.execute(_INFRASTRUCTURE, {"task_id": task_id}).scalar_one())


def release_delayed(tx: Tx, now: datetime) -> set[str]:
    """Queue the allocations with expired delays. Return their pools."""
    return set(tx.execute(_RELEASE_DELAYED, {"now": now}).scalars())


def kills_due(tx: Tx, now: datetime) -> list[str]:
    return list(tx.execute(_KILLS_DUE, {"now": now}).scalars())


def polls_due(tx: Tx, now: datetime) -> list[str]:
    """Return failed elastic gangs after the time in which their agents had to poll."""
    return list(tx.execute(_POLLS_DUE, {"now": now}).scalars())


def next_due(tx: Tx) -> datetime | None:
    """Return the next time at which a tick has to act on an allocation, or on a pool without a change."""
    return tx.execute(_NEXT_DUE).scalar()
