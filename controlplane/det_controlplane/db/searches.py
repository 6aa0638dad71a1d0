"""The event log of a search, and the snapshots that shorten its replay."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import text

from det_controlplane.db.engine import Tx, as_json

_SNAPSHOT = text("SELECT snapshot FROM searches WHERE experiment_id = :id")
_EVENTS = text("""
    SELECT event FROM search_events WHERE experiment_id = :id AND seq > :after AND seq <= :upto ORDER BY seq
""")
_APPEND = text("""
    WITH added AS (
        INSERT INTO search_events (experiment_id, seq, event)
        SELECT :id, cast(:seq AS bigint) + n, event
        FROM jsonb_array_elements(cast(:events AS jsonb)) WITH ORDINALITY AS x (event, n)
    )
    UPDATE searches SET seq = seq + :count, closed = closed OR :closed
    WHERE experiment_id = :id AND seq = :seq
""")
_SAVE = text(
    "UPDATE searches SET snapshot = cast(:snapshot AS json), snapshot_seq = :seq WHERE experiment_id = :id"
)


def snapshot(tx: Tx, experiment_id: int) -> Any:
    return tx.execute(_SNAPSHOT, {"id": experiment_id}).scalar()


def events(tx: Tx, experiment_id: int, after: int, upto: int) -> list[dict[str, Any]]:
    """Return events `after` (exclusive) to `upto` (inclusive), oldest first."""
    return [
        r[0] for r in tx.execute(_EVENTS, {"id": experiment_id, "after": after, "upto": upto}).all()
    ]


def append(
    tx: Tx, experiment_id: int, seq: int, new: Sequence[dict[str, Any]], closed: bool
) -> bool:
    """Add events after `seq`; False when somebody else was first."""
    return tx.execute(_APPEND, _appended(experiment_id, seq, new, closed)).rowcount == 1


def begin(tx: Tx, experiment_id: int, new: Sequence[dict[str, Any]], closed: bool) -> None:
    """Store the first events of a search that this transaction made: nobody else can be first."""
    tx.execute(_APPEND, _appended(experiment_id, 0, new, closed))


def _appended(
    experiment_id: int, seq: int, new: Sequence[dict[str, Any]], closed: bool
) -> dict[str, Any]:
    return {
        "id": experiment_id,
        "seq": seq,
        "events": as_json(list(new)),
        "count": len(new),
        "closed": closed,
    }


def save_snapshot(tx: Tx, experiment_id: int, seq: int, value: Any) -> None:
    tx.execute(_SAVE, {"id": experiment_id, "seq": seq, "snapshot": as_json(value)})
