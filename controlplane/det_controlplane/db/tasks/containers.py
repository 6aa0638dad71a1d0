"""Rows of containers: the parts of an allocation on its agents, and data that they exchange."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    all_,
    and_,
    any_,
    bindparam,
    func,
    literal_column,
    or_,
    select,
    text,
    update,
)

from det_controlplane.core.lifecycle.allocation import ContainerExit, ContainerState, Failure
from det_controlplane.core.lifecycle.machine import MachineState
from det_controlplane.db import schema
from det_controlplane.db.engine.database import Database, Tx
from det_controlplane.db.scheduling.allocations import AllocationRow

_c, _a = schema.containers.c, schema.allocations.c
_LIVE = _c.state != literal_column("'TERMINATED'")
_PLACED = (_c.allocation_id == bindparam("id"), _c.epoch == bindparam("epoch"))
_OF_ALLOCATION = (
    select(
        *_c["id", "agent_id", "epoch", "rank", "slot_ids", "state", "daemon", "address", "host_ports",
           "rendezvous_at", "exit_code", "failure", "message"]
    )
    .where(*_PLACED)
    .order_by(_c.rank)
)  # fmt: skip
_EXITS = (
    select(_c.exit_code, _c.failure, func.coalesce(_c.message, ""), _c.daemon)
    .where(*_PLACED)
    .order_by(_c.ended_at.nulls_last(), _c.rank)
)

# Peers arrive one by one, so that each finds the round that is not full yet.
_LOCK_ALLOCATION = text("SELECT id FROM allocations WHERE id = :id FOR NO KEY UPDATE")
_ADD_GATHERED = text("""
    INSERT INTO gathers (allocation_id, request_uuid, payload, round)
    SELECT :id, :request_uuid, cast(:payload AS jsonb), count(*) / cast(:peers AS integer) FROM gathers WHERE allocation_id = :id
    ON CONFLICT DO NOTHING
""")
_GATHERED_ROUND = text("""
    SELECT payload::text FROM gathers WHERE allocation_id = :id
    AND round = (SELECT round FROM gathers WHERE allocation_id = :id AND request_uuid = :request_uuid) ORDER BY request_uuid
""")


@dataclass(frozen=True, slots=True)
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
    failure: Failure | None
    message: str | None


def of_allocation(tx: Tx, allocation: AllocationRow) -> list[ContainerRow]:
    """Return the containers of its present placement, by rank."""
    params = {"id": allocation.id, "epoch": allocation.epoch}
    return [ContainerRow(*row) for row in tx.execute(_OF_ALLOCATION, params)]


def exits(tx: Tx, allocation: AllocationRow) -> list[ContainerExit]:
    """Return how its containers ended, first exit first."""
    params = {"id": allocation.id, "epoch": allocation.epoch}
    return [ContainerExit(*row) for row in tx.execute(_EXITS, params)]


@dataclass(frozen=True, slots=True)
class Owner:
    """The allocation, trial and experiment that a container belongs to."""

    allocation_id: str
    experiment_id: int | None
    trial_id: int | None


_OWNER = (
    select(_c.allocation_id, *schema.tasks.c["experiment_id", "trial_id"])
    .select_from(schema.containers.join(schema.allocations).join(schema.tasks))
    .where(_c.id == bindparam("id"), _c.agent_id == bindparam("agent_id"))
)
_LOST = (
    select(_c.id, _c.epoch, _c.state, _a.peer_key)
    .join(schema.allocations)
    .where(_c.id == bindparam("id"))
)
_ON_AGENT = (
    select(_c.allocation_id)
    .distinct()
    .where(_c.agent_id == bindparam("agent_id"), _LIVE)
    .order_by(_c.allocation_id)
)
_IN_SLOT = _ON_AGENT.where(bindparam("slot_id") == any_(_c.slot_ids))
_UNTIL = bindparam("until", type_=_a.kill_at.type)
_ASKABLE = _ON_AGENT.join(schema.allocations).where(
    _a.preemptible,
    ~_a.killed,
    or_(
        _a.preempt_at.is_(None),
        and_(_UNTIL.is_not(None), _a.kill_at.is_(None)),
        _a.kill_at > _UNTIL,
    ),
)
_i = schema.instances.c
_AGENTS_TO_ASK = (
    select(_c.agent_id, _i.reason)
    .distinct()
    .select_from(
        schema.containers.join(schema.allocations).join(
            schema.instances, _i.agent_id == _c.agent_id
        )
    )
    .where(
        _LIVE,
        _a.preemptible,
        ~_a.killed,
        _a.preempt_at.is_(None),
        _i.state == MachineState.DRAINING,
        _i.reason != all_(bindparam("kept", type_=ARRAY(_i.reason.type))),
    )
    .order_by(_c.agent_id)
)
_REPORT = text("""
    UPDATE containers SET state = cast(:state AS container_state), address = coalesce(:address, address),
        host_ports = coalesce(cast(:host_ports AS jsonb), host_ports), runtime_id = coalesce(:runtime_id, runtime_id),
        exit_code = :exit_code, failure = :failure, message = :message,
        started_at = CASE WHEN :state = 'RUNNING' THEN coalesce(started_at, :now) ELSE started_at END,
        ended_at = CASE WHEN :state = 'TERMINATED' THEN cast(:now AS timestamptz) END
    WHERE id = :id AND epoch = :epoch AND state < cast(:state AS container_state)
""")
_ARRIVE = (
    update(schema.containers)
    .where(_c.id == bindparam("container_id"))
    .values(rendezvous_at=func.coalesce(_c.rendezvous_at, bindparam("now")))
)
_DAEMON = (
    update(schema.containers)
    .where(_c.id == bindparam("container_id"), _c.allocation_id == bindparam("allocation"))
    .values(daemon=True)
)


def owner(tx: Tx, container_id: UUID, agent_id: str) -> Owner | None:
    """Return the allocation and task of a container on this agent."""
    row = tx.execute(_OWNER, {"id": container_id, "agent_id": agent_id}).first()
    return None if row is None else Owner(*row)


@dataclass(frozen=True, slots=True)
class LostContainer:
    id: UUID
    epoch: int
    state: ContainerState
    peer_key: str  # of its allocation


def lost(tx: Tx, container_id: UUID) -> LostContainer | None:
    """Return a container of a lost agent, or None if its row was deleted."""
    row = tx.execute(_LOST, {"id": container_id}).first()
    return None if row is None else LostContainer(*row)


def allocations_on(tx: Tx, agent_id: str, slot_id: int | None = None) -> list[str]:
    """Return allocations with a live container on the agent, or in one of its slots, in the order of their locks."""
    statement = _ON_AGENT if slot_id is None else _IN_SLOT
    return list(tx.execute(statement, {"agent_id": agent_id, "slot_id": slot_id}).scalars())


def allocations_to_ask(tx: Tx, agent_id: str, until: datetime | None) -> list[str]:
    """Return allocations on the agent that may save a checkpoint and were not asked to, or may take longer than `until`."""
    return list(tx.execute(_ASKABLE, {"agent_id": agent_id, "until": until}).scalars())


def agents_to_ask(tx: Tx, kept: Sequence[str]) -> list[tuple[str, str]]:
    """Return agents of rented machines that drain, with work that was not asked to leave, and the reasons.

    Work on machines that drain for one of the reasons `kept` may finish."""
    return [(r.agent_id, r.reason) for r in tx.execute(_AGENTS_TO_ASK, {"kept": list(kept)}).all()]


def report(tx: Tx, values: Mapping[str, Any]) -> bool:
    """Store a report; return False when it is known already, or of another epoch."""
    return tx.execute(_REPORT, values).rowcount == 1


def arrive(tx: Tx, container_id: UUID, now: datetime) -> None:
    """Store when a container first asked for its peers' addresses."""
    tx.execute(_ARRIVE, {"container_id": container_id, "now": now})


def mark_daemon(tx: Tx, container_id: UUID, allocation_id: str) -> bool:
    params = {"container_id": container_id, "allocation": allocation_id}
    return tx.execute(_DAEMON, params).rowcount == 1


_SILENT = text("""
    SELECT c.id, c.agent_id, f.failed_at FROM containers c JOIN allocations a ON a.id = c.allocation_id AND a.epoch = c.epoch
    JOIN agents g ON g.id = c.agent_id CROSS JOIN LATERAL (
        SELECT min(o.ended_at) AS failed_at FROM containers o WHERE o.allocation_id = a.id AND o.epoch = a.epoch) f
    WHERE a.id = :allocation_id AND c.state <> 'TERMINATED' AND g.last_seen_at < f.failed_at ORDER BY c.agent_id, c.rank
""")


@dataclass(frozen=True, slots=True)
class SilentContainer:
    """A container of a failed gang. Its agent has not polled since the failure."""

    id: UUID
    agent_id: str
    failed_at: datetime


def silent_of(tx: Tx, allocation_id: str) -> list[SilentContainer]:
    rows = tx.execute(_SILENT, {"allocation_id": allocation_id})
    return [SilentContainer(*row) for row in rows]


_TASKS_OF_AGENT = text("""
    SELECT DISTINCT a.task_id FROM allocations a JOIN containers c ON c.allocation_id = a.id
    WHERE a.task_id = ANY(cast(:tasks AS text[])) AND c.agent_id = :agent_id
""")


def tasks_of_agent(db: Database, agent_id: str, tasks: Collection[str]) -> set[str]:
    """Return which of some tasks have, or had, a container on an agent."""
    rows = db.read(_TASKS_OF_AGENT, {"tasks": list(tasks), "agent_id": agent_id})
    return {row.task_id for row in rows}


def add_gathered(tx: Tx, allocation_id: str, request_uuid: str, peers: int, data: str) -> list[str]:
    """Add a peer's data to the open round. Return the data of the round so far, each as JSON."""
    params = {"id": allocation_id, "request_uuid": request_uuid}
    tx.execute(_LOCK_ALLOCATION, {"id": allocation_id})
    tx.execute(_ADD_GATHERED, {**params, "payload": data, "peers": peers})
    return list(tx.execute(_GATHERED_ROUND, params).scalars())
