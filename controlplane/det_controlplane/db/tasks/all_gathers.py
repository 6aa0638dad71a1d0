"""Rows of all-gathers: data that the containers of an allocation exchange."""

from sqlalchemy import text

from det_controlplane.db.engine.database import Tx

# Peers arrive one by one, so that each finds the round that is not full yet.
_LOCK = text("SELECT id FROM allocations WHERE id = :id FOR NO KEY UPDATE")
_ADD = text("""
    INSERT INTO gathers (allocation_id, request_uuid, payload, round)
    SELECT :id, :request_uuid, cast(:payload AS jsonb), count(*) / cast(:peers AS integer) FROM gathers WHERE allocation_id = :id
    ON CONFLICT DO NOTHING
""")
_ROUND = text("""
    SELECT payload::text FROM gathers WHERE allocation_id = :id
    AND round = (SELECT round FROM gathers WHERE allocation_id = :id AND request_uuid = :request_uuid) ORDER BY request_uuid
""")


def add(tx: Tx, allocation_id: str, request_uuid: str, peers: int, data: str) -> list[str]:
    """Add a peer's data to the open round. Return the data of the round so far, each as JSON."""
    params = {"id": allocation_id, "request_uuid": request_uuid}
    tx.execute(_LOCK, {"id": allocation_id})
    tx.execute(_ADD, {**params, "payload": data, "peers": peers})
    return list(tx.execute(_ROUND, params).scalars())
