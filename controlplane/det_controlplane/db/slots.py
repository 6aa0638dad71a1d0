"""Who holds which slot."""

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import text

from det_controlplane.db.engine import Tx, as_json

_RELEASE = text("""
    UPDATE slots SET container_id = NULL
    WHERE container_id IN (SELECT id FROM containers WHERE allocation_id = :id)
""")
_RELEASE_ONE = text("UPDATE slots SET container_id = NULL WHERE container_id = :id")
_AGENTS = text(
    "SELECT DISTINCT agent_id FROM containers WHERE allocation_id = :id AND state <> 'TERMINATED'"
)
_HOLD = text("""
    UPDATE slots s SET container_id = x.container_id
    FROM jsonb_to_recordset(cast(:rows AS jsonb)) AS x (agent_id text, slot_id integer, container_id uuid)
    WHERE s.agent_id = x.agent_id AND s.slot_id = x.slot_id AND s.container_id IS NULL AND s.enabled AND NOT s.draining
""")


def release(tx: Tx, allocation_id: str) -> None:
    tx.execute(_RELEASE, {"id": allocation_id})


def release_container(tx: Tx, container_id: object) -> None:
    tx.execute(_RELEASE_ONE, {"id": container_id})


def agents_of(tx: Tx, allocation_id: str) -> list[str]:
    return [r[0] for r in tx.execute(_AGENTS, {"id": allocation_id}).all()]


def hold(tx: Tx, containers: Sequence[tuple[UUID, str, list[int]]]) -> bool:
    """Give containers (id, agent, slots) their slots; False when one of those is no longer free."""
    rows = [
        {"agent_id": agent_id, "slot_id": slot_id, "container_id": container_id}
        for container_id, agent_id, slot_ids in containers
        for slot_id in slot_ids
    ]
    return not rows or tx.execute(_HOLD, {"rows": as_json(rows)}).rowcount == len(rows)
