"""Who holds which slot."""

from sqlalchemy import text

from det_controlplane.db.engine import Tx

_RELEASE = text("""
    UPDATE slots SET container_id = NULL
    WHERE container_id IN (SELECT id FROM containers WHERE allocation_id = :id)
""")
_RELEASE_ONE = text("UPDATE slots SET container_id = NULL WHERE container_id = :id")
_AGENTS = text(
    "SELECT DISTINCT agent_id FROM containers WHERE allocation_id = :id AND state <> 'TERMINATED'"
)
_HOLD = text("""
    UPDATE slots SET container_id = :container_id
    WHERE agent_id = :agent_id AND slot_id = ANY(cast(:slot_ids AS integer[])) AND container_id IS NULL
      AND enabled AND NOT draining
""")


def release(tx: Tx, allocation_id: str) -> None:
    tx.run(_RELEASE, {"id": allocation_id})


def release_container(tx: Tx, container_id: object) -> None:
    tx.run(_RELEASE_ONE, {"id": container_id})


def agents_of(tx: Tx, allocation_id: str) -> list[str]:
    return [r[0] for r in tx.rows(_AGENTS, {"id": allocation_id})]


def hold(tx: Tx, agent_id: str, slot_ids: list[int], container_id: object) -> bool:
    """Give a container its slots; False when one of them is no longer free."""
    params = {"agent_id": agent_id, "slot_ids": slot_ids, "container_id": container_id}
    return tx.run(_HOLD, params) == len(slot_ids)
