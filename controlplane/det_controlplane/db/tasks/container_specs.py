"""Read everything that the specification of a container needs."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text

from det_controlplane.db.checkpoints.checkpoints import NEWEST_CHECKPOINT
from det_controlplane.db.engine.database import Tx

_CONTAINER = text("""
    SELECT c.id, c.epoch, c.rank, c.slot_ids, c.agent_id, c.allocation_id, a.task_id, a.ports, a.run_id, a.slots, a.pool, a.peer_key, a.token_expires_at,
           t.kind::text AS kind, t.config, t.sealed, t.experiment_id, t.trial_id, j.user_id,
           u.username, coalesce(u.agent_user, w.agent_user) AS agent_user,
           (SELECT count(*) FROM containers p WHERE p.allocation_id = c.allocation_id AND p.epoch = c.epoch) AS peers,
           (SELECT min(s.device_type)::text FROM slots s WHERE s.agent_id = c.agent_id) AS device_type
    FROM containers c JOIN allocations a ON a.id = c.allocation_id JOIN tasks t ON t.id = a.task_id
    JOIN jobs j ON j.id = a.job_id JOIN users u ON u.id = j.user_id JOIN workspaces w ON w.id = j.workspace_id
    WHERE c.id = :id FOR NO KEY UPDATE OF a
""")
# All ranks start from the same checkpoint, even if a late report of an earlier run adds a newer one in between.
_FIX_START = text(f"""
    UPDATE allocations a SET start_checkpoint = coalesce(n.uuid, t.warm_start_uuid), start_steps = coalesce(n.steps_completed, 0)
    FROM trials t LEFT JOIN LATERAL (
        SELECT c.uuid, c.steps_completed FROM checkpoints c WHERE c.trial_id = t.id AND {NEWEST_CHECKPOINT}) n ON true
    WHERE a.id = :id AND t.id = a.trial_id AND a.start_steps IS NULL
""")
_TRIAL = text("""
    SELECT t.seed, t.hparams, e.config, e.sealed, a.start_checkpoint, a.start_steps
    FROM allocations a JOIN trials t ON t.id = a.trial_id JOIN experiments e ON e.id = t.experiment_id WHERE a.id = :id
""")


@dataclass(frozen=True, slots=True)
class StartedContainer:
    id: UUID
    epoch: int
    rank: int
    slot_ids: list[int]
    agent_id: str
    allocation_id: str
    task_id: str
    ports: dict[str, int]
    run_id: int
    slots: int
    pool: str
    peer_key: str
    token_expires_at: datetime | None
    kind: str
    config: dict[str, Any] | None
    sealed: str | None
    experiment_id: int | None
    trial_id: int | None
    user_id: int
    username: str
    agent_user: dict[str, Any] | None
    peers: int
    device_type: str | None


@dataclass(frozen=True, slots=True)
class StartedTrial:
    seed: int
    hparams: dict[str, Any]
    config: dict[str, Any]
    sealed: str | None
    latest_checkpoint: UUID | None
    steps_completed: int


def container(tx: Tx, container_id: UUID) -> StartedContainer | None:
    """Read the data of a container's specification, under the lock of its allocation."""
    row = tx.execute(_CONTAINER, {"id": container_id}).first()
    return None if row is None else StartedContainer(*row)


def trial(tx: Tx, allocation_id: str) -> StartedTrial:
    """Return the values for the start of a trial's run. The first call chooses the checkpoint, under the allocation's lock."""
    tx.execute(_FIX_START, {"id": allocation_id})
    return StartedTrial(*tx.execute(_TRIAL, {"id": allocation_id}).one())
