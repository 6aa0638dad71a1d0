"""Rows of allocations and their containers."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text

from det_controlplane.core.lifecycle.allocation import (
    AllocationState,
    ContainerExit,
    ContainerState,
    Exit,
    Failure,
)
from det_controlplane.core.schedule import WaitCode
from det_controlplane.db.engine import Tx


@dataclass(slots=True)
class AllocationRow:
    id: str
    task_id: str
    trial_id: int | None
    experiment_id: int | None
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


_COLUMNS = """a.id, a.task_id, a.trial_id, t.experiment_id, a.job_id, a.run_id, a.pool, a.slots, a.state::text, a.epoch,
    a.preemptible, a.ready, a.preempt_at, a.preempt_timeout_s, a.preempt_acked, a.killed, a.kill_before_exit"""
_FROM = "FROM allocations a JOIN tasks t ON t.id = a.task_id"
_KILLS_DUE = text(
    "SELECT id FROM allocations WHERE state <> 'TERMINATED' AND kill_at <= :now ORDER BY kill_at"
)
_NEXT_KILL = text(
    "SELECT min(kill_at) FROM allocations WHERE state <> 'TERMINATED' AND kill_at IS NOT NULL"
)
_BY_ID = text(f"SELECT {_COLUMNS} {_FROM} WHERE a.id = :id")
_LOCK = text(f"SELECT {_COLUMNS} {_FROM} WHERE a.id = :id FOR UPDATE OF a")
_LIVE_OF_TASK = text(
    f"SELECT {_COLUMNS} {_FROM} WHERE a.task_id = :task_id AND a.state <> 'TERMINATED' FOR UPDATE OF a"
)


def _row(values: Any) -> AllocationRow:
    fields = dict(values._mapping)
    fields["state"] = AllocationState(fields["state"])
    return AllocationRow(**fields)


def by_id(tx: Tx, allocation_id: str) -> AllocationRow | None:
    row = tx.execute(_BY_ID, {"id": allocation_id}).first()
    return None if row is None else _row(row)


def lock(tx: Tx, allocation_id: str) -> AllocationRow | None:
    row = tx.execute(_LOCK, {"id": allocation_id}).first()
    return None if row is None else _row(row)


def live_of_task(tx: Tx, task_id: str) -> AllocationRow | None:
    row = tx.execute(_LIVE_OF_TASK, {"task_id": task_id}).first()
    return None if row is None else _row(row)


DELAYED = WaitCode.BACKING_OFF.value


@dataclass(frozen=True, slots=True)
class Delay:
    """Why an allocation is queued now and looked at only later."""

    until: datetime
    reason: str


_INSERT = text("""
    INSERT INTO allocations (id, task_id, trial_id, job_id, run_id, pool, slots, state, preemptible, single_agent,
        preempt_timeout_s, requested_at, not_before, wait_code, wait_reason, wait_since)
    VALUES (:id, :task_id, :trial_id, :job_id, :run_id, :pool, :slots, 'QUEUED', :preemptible, :single_agent,
        :preempt_timeout_s, :now, :not_before, :wait_code, :wait_reason, :wait_since)
""")


def insert(
    tx: Tx,
    *,
    id: str,
    task_id: str,
    trial_id: int | None,
    job_id: UUID,
    run_id: int,
    pool: str,
    slots: int,
    preemptible: bool,
    single_agent: bool,
    preempt_timeout_s: int,
    now: datetime,
    delay: Delay | None = None,
) -> None:
    tx.execute(
        _INSERT,
        {
            "id": id, "task_id": task_id, "trial_id": trial_id, "job_id": job_id, "run_id": run_id,
            "pool": pool, "slots": slots, "preemptible": preemptible, "single_agent": single_agent,
            "preempt_timeout_s": preempt_timeout_s, "now": now,
            "not_before": delay and delay.until, "wait_code": delay and DELAYED,
            "wait_reason": delay and delay.reason, "wait_since": delay and now,
        },
    )  # fmt: skip


_PREEMPT = text("""
    UPDATE allocations SET preempt_at = :now, preempt_reason = :reason,
        kill_at = least(kill_at, cast(:now AS timestamptz) + make_interval(secs => preempt_timeout_s))
    WHERE id = :id AND state <> 'TERMINATED' AND preempt_at IS NULL AND NOT killed
""")
_EXCUSE = text("""
    UPDATE allocations SET preempt_acked = true
    WHERE task_id = :task_id AND state <> 'TERMINATED' AND preempt_at IS NOT NULL
""")
# What runs and was not told to leave yet: one statement for trials that the searcher stops.
_ASK_TO_LEAVE = text("""
    WITH told AS (
        UPDATE allocations a SET preempt_at = :now, preempt_reason = :reason,
            kill_at = least(a.kill_at, cast(:now AS timestamptz) + make_interval(secs => a.preempt_timeout_s))
        FROM trials t WHERE t.experiment_id = :experiment_id AND t.request_id = ANY(cast(:request_ids AS uuid[]))
            AND t.state = 'ACTIVE' AND a.task_id = t.task_id AND a.state NOT IN ('QUEUED', 'TERMINATED')
            AND a.preemptible AND a.ready AND a.preempt_at IS NULL AND NOT a.killed
        RETURNING a.id, a.task_id, t.id AS trial_id, t.request_id),
    stopped AS (
        UPDATE trials SET state = 'STOPPING_COMPLETED', stop_requested = true FROM told WHERE trials.id = told.trial_id),
    logged AS (
        INSERT INTO task_logs (task_id, logged_at, level, source, log)
        SELECT task_id, :now, 'LOG_LEVEL_INFO', 'master', :line FROM told)
    SELECT id, request_id::text AS request_id, ARRAY(
        SELECT DISTINCT c.agent_id FROM containers c WHERE c.allocation_id = told.id AND c.state <> 'TERMINATED') AS agents
    FROM told ORDER BY id
""")
# Before any exit that counts: whoever ended well in a gang leaves it to the kill how the others end.
_KILL = text("""
    UPDATE allocations a SET killed = true, kill_at = NULL, preempt_reason = coalesce(preempt_reason, :reason),
        kill_before_exit = (SELECT coalesce(bool_or(c.state <> 'TERMINATED' AND NOT c.daemon), false)
                                AND NOT coalesce(bool_or(c.failure IS NOT NULL OR c.exit_code <> 0), false)
                            FROM containers c WHERE c.allocation_id = a.id AND c.epoch = a.epoch)
    WHERE a.id = :id AND a.state <> 'TERMINATED' AND NOT a.killed
""")
_END = text("""
    UPDATE allocations SET state = 'TERMINATED', ended_at = :now, exit_kind = cast(:kind AS exit_kind), exit_reason = :reason, exit_code = :exit_code,
        pull_failed = :pull_failed, setback = cast(:kind AS exit_kind) = 'infrastructure' AND NOT ready, not_before = NULL, kill_at = NULL, token_expires_at = :token_expires_at
    WHERE id = :id AND state <> 'TERMINATED'
""")


def preempt(tx: Tx, allocation_id: str, reason: str, now: datetime) -> bool:
    """Ask it to checkpoint and stop, with the kill due when it takes too long."""
    return tx.execute(_PREEMPT, {"id": allocation_id, "reason": reason, "now": now}).rowcount == 1


def excuse_leaving(tx: Tx, task_id: str) -> None:
    """As if the program had acknowledged that it was asked to leave: its exit is not the end of the trial."""
    tx.execute(_EXCUSE, {"task_id": task_id})


@dataclass(frozen=True, slots=True)
class Leaving:
    id: str
    request_id: str
    agents: list[str]


def ask_to_leave(
    tx: Tx, experiment_id: int, request_ids: list[str], reason: str, line: str, now: datetime
) -> list[Leaving]:
    """Stop trials by preempting their allocations. Those that do not run, or are leaving already, stay as they are."""
    params = {
        "experiment_id": experiment_id, "request_ids": request_ids, "reason": reason, "line": line,
        "now": now,
    }  # fmt: skip
    return [Leaving(*row) for row in tx.execute(_ASK_TO_LEAVE, params).all()]


def kill(tx: Tx, allocation_id: str, reason: str) -> bool:
    return tx.execute(_KILL, {"id": allocation_id, "reason": reason}).rowcount == 1


def end(
    tx: Tx,
    allocation_id: str,
    *,
    reason: str,
    exit: Exit,
    now: datetime,
    token_expires_at: datetime,
) -> bool:
    params = {
        "id": allocation_id,
        "reason": reason,
        "exit_code": exit.exit_code,
        "kind": exit.kind.value,
        "pull_failed": exit.pull_failed,
        "now": now,
        "token_expires_at": token_expires_at,
    }
    return tx.execute(_END, params).rowcount == 1


_CONTAINERS = text("""
    SELECT id, agent_id, epoch, rank, slot_ids, state::text, daemon, address, host_ports, rendezvous_at, exit_code,
           failure, message
    FROM containers WHERE allocation_id = :id AND epoch = :epoch ORDER BY rank
""")
_EXITS = text("""
    SELECT exit_code, failure, coalesce(message, '') AS message, daemon FROM containers
    WHERE allocation_id = :id AND epoch = :epoch ORDER BY ended_at NULLS LAST, rank
""")


@dataclass(slots=True)
class ContainerRow:
    id: UUID
    agent_id: str
    epoch: int
    rank: int
    slot_ids: list[int]
    state: ContainerState
    daemon: bool
    address: str | None
    host_ports: dict[str, int]
    rendezvous_at: datetime | None
    exit_code: int | None
    failure: str | None
    message: str | None


def containers(tx: Tx, allocation: AllocationRow) -> list[ContainerRow]:
    """The containers of its present placement, by rank."""
    found = []
    for row in tx.execute(_CONTAINERS, {"id": allocation.id, "epoch": allocation.epoch}).all():
        fields = dict(row._mapping)
        fields["state"] = ContainerState(fields["state"])
        found.append(ContainerRow(**fields))
    return found


def exits(tx: Tx, allocation: AllocationRow) -> list[ContainerExit]:
    """How its containers ended, first exit first."""
    rows = tx.execute(_EXITS, {"id": allocation.id, "epoch": allocation.epoch}).all()
    return [
        ContainerExit(r.exit_code, Failure(r.failure) if r.failure else None, r.message, r.daemon)
        for r in rows
    ]


_PULL_FAILURES = text("""
    SELECT count(*) FROM (
        SELECT bool_and(pull_failed) OVER (ORDER BY run_id DESC) AS failed
        FROM allocations WHERE task_id = :task_id AND state = 'TERMINATED') x WHERE failed
""")


def pull_failures(tx: Tx, task_id: str) -> int:
    """How many of the task's newest allocations, in a row, ended because an image could not be pulled."""
    return int(tx.execute(_PULL_FAILURES, {"task_id": task_id}).scalar_one())


_SETBACKS = text("""
    SELECT count(*) FROM (
        SELECT bool_and(setback) OVER (ORDER BY run_id DESC) AS setback
        FROM allocations WHERE task_id = :task_id AND state = 'TERMINATED') x WHERE setback
""")
_RELEASE_DELAYED = text("""
    UPDATE allocations SET not_before = NULL, wait_code = NULL, wait_reason = NULL
    WHERE state = 'QUEUED' AND not_before <= :now RETURNING pool
""")
_NEXT_DELAYED = text(
    "SELECT min(not_before) FROM allocations WHERE state = 'QUEUED' AND not_before IS NOT NULL"
)


def setbacks(tx: Tx, task_id: str) -> int:
    """How many of the task's newest allocations, in a row, infrastructure ended before they were ready."""
    return int(tx.execute(_SETBACKS, {"task_id": task_id}).scalar_one())


def release_delayed(tx: Tx, now: datetime) -> set[str]:
    """Let the scheduler look at those whose delay is over; the pools they wait in."""
    return {row[0] for row in tx.execute(_RELEASE_DELAYED, {"now": now}).all()}


def next_delayed(tx: Tx) -> datetime | None:
    due: datetime | None = tx.execute(_NEXT_DELAYED).scalar()
    return due


def kills_due(tx: Tx, now: datetime) -> list[str]:
    return list(tx.execute(_KILLS_DUE, {"now": now}).scalars())


def next_kill(tx: Tx) -> datetime | None:
    due: datetime | None = tx.execute(_NEXT_KILL).scalar()
    return due
