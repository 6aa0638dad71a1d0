"""Read and revive runs that were declared lost with their agent."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text

from det_controlplane.core.lifecycle.adoption import Peer, Successor
from det_controlplane.core.lifecycle.allocation import AllocationState, ContainerState, ExitKind
from det_controlplane.core.lifecycle.task import GenericTaskState
from det_controlplane.core.lifecycle.trial import TrialState
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.money import usage
from det_controlplane.db.people import sessions
from det_controlplane.db.scheduling import slots

_LOST = text("""
    SELECT c.id, c.epoch, c.slot_ids, a.id AS allocation_id, a.task_id, a.run_id, k.trial_id, k.experiment_id
    FROM containers c JOIN allocations a ON a.id = c.allocation_id JOIN tasks k ON k.id = a.task_id
    WHERE c.agent_id = :agent AND c.id = ANY(cast(:ids AS uuid[])) AND c.epoch = a.epoch
      AND (c.failure = 'agent_lost' OR a.awaited_until IS NOT NULL AND c.state <> 'TERMINATED')
    ORDER BY a.id
""")
_LOCK_EXPERIMENTS = text("""
    SELECT e.id FROM experiments e JOIN searches s ON s.experiment_id = e.id
    WHERE e.id = ANY(cast(:ids AS integer[])) ORDER BY e.id FOR NO KEY UPDATE OF e, s
""")
_LOCK_RUNS = text("""
    SELECT id, run_id, ready, pool, exit_kind::text AS exit_kind FROM allocations
    WHERE task_id = :task AND run_id >= :run ORDER BY run_id FOR UPDATE
""")
_LOCK_TASK = text("SELECT state::text FROM tasks WHERE id = :task FOR NO KEY UPDATE")
_ANCESTORS = text("""
    WITH RECURSIVE up AS (
        SELECT parent_id AS id FROM tasks WHERE id = :task
        UNION SELECT t.parent_id FROM tasks t JOIN up ON t.id = up.id)
    SELECT id FROM up WHERE id IS NOT NULL
""")
# Their kill waits for this lock, and then finds the task below alive.
_LOCK_ANCESTORS = text("""
    SELECT state::text FROM tasks WHERE id = ANY(cast(:ids AS text[])) ORDER BY id FOR SHARE
""")
_TRIAL_STATE = text("SELECT state::text FROM trials WHERE id = :trial FOR NO KEY UPDATE")
# A run begins to end when its first container is lost. An agent that polls later is ordered to kill its container.
_CONTAINERS = text("""
    SELECT c.id, c.agent_id, c.slot_ids, c.state::text AS state, c.exit_code, c.failure::text AS failure,
           coalesce(g.state = 'LOST', false) AND NOT EXISTS (
               SELECT 1 FROM instances i WHERE i.agent_id = c.agent_id AND i.state IN ('TERMINATING', 'GONE', 'FAILED')
           ) AS agent_away,
           coalesce(CASE WHEN c.agent_id = :agent THEN cast(:last_seen_at AS timestamptz) ELSE g.last_seen_at END > l.lost_at, true)
               AS heard_end
    FROM containers c LEFT JOIN agents g ON g.id = c.agent_id, (
        SELECT min(ended_at) AS lost_at FROM containers
        WHERE allocation_id = :id AND epoch = :epoch AND failure = 'agent_lost') l
    WHERE c.allocation_id = :id AND c.epoch = :epoch ORDER BY c.agent_id, c.rank
""")
_AGENTS = text("""
    SELECT DISTINCT agent_id FROM containers
    WHERE allocation_id = ANY(cast(:ids AS text[])) AND state <> 'TERMINATED' ORDER BY agent_id
""")
_POOLS = text("SELECT DISTINCT pool FROM allocations WHERE id = ANY(cast(:ids AS text[]))")
_END_CONTAINERS = text("""
    UPDATE containers SET state = 'TERMINATED', ended_at = :now, failure = 'aborted', message = 'an earlier run goes on'
    WHERE allocation_id = ANY(cast(:ids AS text[])) AND state <> 'TERMINATED'
""")
_DELETE = text("DELETE FROM allocations WHERE id = ANY(cast(:ids AS text[]))")
_REVIVE_CONTAINER = text("""
    UPDATE containers SET state = cast(:state AS container_state), ended_at = NULL, failure = NULL, message = NULL
    WHERE id = :id
""")
# The loss of one container of several has ordered the others to be killed.
_REVIVE = text("""
    UPDATE allocations SET state = cast(:state AS allocation_state), ended_at = NULL, exit_kind = NULL, exit_reason = NULL,
        exit_code = NULL, setback = false, token_expires_at = NULL, awaited_until = :awaited_until,
        killed = false, kill_before_exit = false, preempt_reason = CASE WHEN preempt_at IS NOT NULL THEN preempt_reason END,
        kill_at = CASE WHEN preempt_at IS NOT NULL THEN cast(:now AS timestamptz) + make_interval(secs => preempt_timeout_s) END
    WHERE id = :id
""")
_SET_RUN = text("UPDATE trials SET run_id = :run WHERE id = :trial")
_REOPEN = text("""
    UPDATE tasks SET ended_at = NULL, exit_status = NULL, outcome = NULL, state = cast(:state AS generic_task_state),
        active_at = CASE WHEN active_at IS NOT NULL THEN cast(:now AS timestamptz) END
    WHERE id = :task
""")


_END_FOR_GOOD = text("""
    UPDATE allocations SET exit_kind = 'killed'
    WHERE task_id = :task AND state = 'TERMINATED' AND exit_kind = 'infrastructure'
""")
_IS_AWAITED = text("""
    SELECT 1 FROM allocations a JOIN containers c ON c.allocation_id = a.id
    WHERE c.id = :id AND NOT a.killed AND a.awaited_until > :now
""")
_STOP_WAITING = text("""
    UPDATE allocations SET awaited_until = NULL WHERE awaited_until IS NOT NULL AND state <> 'TERMINATED'
      AND id IN (SELECT allocation_id FROM containers WHERE agent_id = :agent AND state <> 'TERMINATED')
""")


@dataclass(frozen=True, slots=True)
class LostContainer:
    id: UUID
    epoch: int
    slot_ids: list[int]
    allocation_id: str
    task_id: str
    run_id: int
    trial_id: int | None
    experiment_id: int | None


@dataclass(frozen=True, slots=True)
class Later:
    """A run that followed a lost one."""

    allocation_id: str
    successor: Successor


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of a task from a lost one on."""

    pool: str
    exit_kind: ExitKind | None
    ready: bool
    later: Sequence[Later]


@dataclass(frozen=True, slots=True)
class Member:
    """A container of a lost run."""

    id: UUID
    slot_ids: list[int]
    peer: Peer


def of_agent(tx: Tx, agent_id: str, container_ids: Sequence[str]) -> list[LostContainer]:
    """Return the containers that ended because the agent was lost, with their runs."""
    rows = tx.execute(_LOST, {"agent": agent_id, "ids": list(container_ids)})
    return [LostContainer(*row) for row in rows]


def lock_experiments(tx: Tx, ids: Sequence[int]) -> None:
    """Lock experiments, each as everything that changes its trials does."""
    tx.execute(_LOCK_EXPERIMENTS, {"ids": list(ids)}).all()


def lock_runs(tx: Tx, lost: LostContainer) -> Runs | None:
    """Lock the runs of a task from a lost one on; None if that was deleted."""
    rows = tx.execute(_LOCK_RUNS, {"task": lost.task_id, "run": lost.run_id}).all()
    own = next((row for row in rows if row.id == lost.allocation_id), None)
    if own is None:
        return None
    later = [Later(r.id, Successor(r.run_id, r.ready)) for r in rows if r.run_id > lost.run_id]
    kind = None if own.exit_kind is None else ExitKind(own.exit_kind)
    return Runs(own.pool, kind, own.ready, later)


def lock_task(tx: Tx, task_id: str) -> GenericTaskState | None:
    """Lock a task; return its state if it is a generic one."""
    state = tx.execute(_LOCK_TASK, {"task": task_id}).scalar()
    return None if state is None else GenericTaskState(state)


def is_under_killed_task(tx: Tx, task_id: str) -> bool:
    """Return whether a task above was killed, and keep it so until the transaction ends."""
    above = list(tx.execute(_ANCESTORS, {"task": task_id}).scalars())
    states = tx.execute(_LOCK_ANCESTORS, {"ids": above}).scalars() if above else ()
    return any(state in ("CANCELED", "STOPPING_CANCELED") for state in states)


def lock_trial(tx: Tx, trial_id: int) -> TrialState:
    return TrialState(tx.execute(_TRIAL_STATE, {"trial": trial_id}).scalar_one())


def members(tx: Tx, lost: LostContainer, agent_id: str, last_seen_at: datetime) -> list[Member]:
    """Return the containers of a lost run. `last_seen_at` is when the rejoining agent was last seen."""
    params = {
        "id": lost.allocation_id, "epoch": lost.epoch, "agent": agent_id, "last_seen_at": last_seen_at,
    }  # fmt: skip
    return [
        Member(
            row.id, row.slot_ids,
            Peer(
                row.agent_id, ContainerState(row.state), row.exit_code, row.failure, row.agent_away,
                row.heard_end,
            ),
        )
        for row in tx.execute(_CONTAINERS, params)
    ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """The agents that had containers of withdrawn runs, and the pools in which the runs waited or were placed."""

    agents: Sequence[str]
    pools: Sequence[str]


def withdraw(tx: Tx, allocation_ids: Sequence[str], now: datetime) -> Withdrawn:
    """Delete runs that have not begun, as if they had never been requested. The cost of their machines is kept."""
    ids = {"ids": list(allocation_ids)}
    agents = list(tx.execute(_AGENTS, ids).scalars())
    pools = list(tx.execute(_POOLS, ids).scalars())
    tx.execute(_END_CONTAINERS, {**ids, "now": now})
    usage.keep_of_allocations(tx, allocation_ids)
    sessions.delete_of_allocations(tx, allocation_ids)
    tx.execute(_DELETE, ids)
    return Withdrawn(agents, pools)


def revive(tx: Tx, run: LostContainer, now: datetime, awaited_until: datetime | None) -> None:
    """Let a lost run live again, as if no agent had been lost. Wait until then for agents that are away."""
    state = AllocationState.RUNNING.value
    params = {
        "id": run.allocation_id,
        "state": state,
        "now": now,
        "awaited_until": awaited_until,
    }
    tx.execute(_REVIVE, params)
    sessions.renew_for_task(tx, run.allocation_id)
    if run.trial_id is not None:
        tx.execute(_SET_RUN, {"trial": run.trial_id, "run": run.run_id})


def revive_container(tx: Tx, member: Member, state: ContainerState) -> None:
    """Let a lost container live again, with its slots."""
    tx.execute(_REVIVE_CONTAINER, {"id": member.id, "state": state.value})
    slots.reassign(tx, member.peer.agent_id, member.id, member.slot_ids)


def end_for_good(tx: Tx, task_id: str) -> None:
    """Let no run of a task continue that was lost with its agent."""
    tx.execute(_END_FOR_GOOD, {"task": task_id})


def is_awaited(tx: Tx, container_id: UUID, now: datetime) -> bool:
    """Return whether a revived run still waits for the agent of this container to join again."""
    return tx.execute(_IS_AWAITED, {"id": container_id, "now": now}).first() is not None


def stop_waiting_for(tx: Tx, agent_id: str) -> None:
    """Let no run wait for an agent that is gone for good."""
    tx.execute(_STOP_WAITING, {"agent": agent_id})


def reopen_task(tx: Tx, task_id: str, state: GenericTaskState | None, now: datetime) -> None:
    """Make a command or generic task active again."""
    params = {"task": task_id, "state": None if state is None else state.value, "now": now}
    tx.execute(_REOPEN, params)


def have_free_slots(tx: Tx, returning: Sequence[Member], runs: Runs) -> bool:
    """Return whether no work but later runs of the same task has the slots of lost containers."""
    later = [run.allocation_id for run in runs.later]
    return all(
        slots.free_for(tx, m.peer.agent_id, m.slot_ids, later) == len(m.slot_ids) for m in returning
    )
