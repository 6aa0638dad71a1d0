"""The event log of a search, and the snapshots that shorten its replay."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import text

from det_controlplane.db.engine.database import Tx, as_json
from det_controlplane.db.engine.views import STOPPED_EARLY, WAITS_FOR_SEARCH, time

_SNAPSHOT = text("SELECT snapshot, snapshot_seq FROM searches WHERE experiment_id = :id")
_EVENTS = text("""
    SELECT event FROM search_events WHERE experiment_id = :id AND seq > :after AND seq <= :upto ORDER BY seq
""")
# Events of validation reports are appended by `metrics.store_with_events`, with the reports in one statement.
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


_COST_LIMITS = text("""
    SELECT s.experiment_id, s.cost_limit_usd FROM searches s JOIN experiments e ON e.id = s.experiment_id
    WHERE s.cost_limit_usd IS NOT NULL AND NOT s.closed AND e.state = 'ACTIVE' AND NOT e.unmanaged ORDER BY s.experiment_id
""")


def cost_limits(tx: Tx) -> dict[int, float]:
    """Return the limits in US dollars of the active searches that have one, by experiment."""
    return {row.experiment_id: row.cost_limit_usd for row in tx.execute(_COST_LIMITS).all()}


def snapshot(tx: Tx, experiment_id: int) -> tuple[Any, int]:
    """Return the snapshot and the number of its last event, or None and 0."""
    row = tx.execute(_SNAPSHOT, {"id": experiment_id}).one()
    return row.snapshot, row.snapshot_seq


def events(tx: Tx, experiment_id: int, after: int, upto: int) -> list[dict[str, Any]]:
    """Return events `after` (exclusive) to `upto` (inclusive), oldest first."""
    return [
        r[0] for r in tx.execute(_EVENTS, {"id": experiment_id, "after": after, "upto": upto}).all()
    ]


def append(
    tx: Tx, experiment_id: int, seq: int, new: Sequence[dict[str, Any]], closed: bool
) -> bool:
    """Add events after `seq`; return False if another process added some first."""
    return tx.execute(_APPEND, _append_params(experiment_id, seq, new, closed)).rowcount == 1


def begin(tx: Tx, experiment_id: int, new: Sequence[dict[str, Any]], closed: bool) -> None:
    """Store the first events of a search that this transaction has inserted, so that no other process can have any."""
    tx.execute(_APPEND, _append_params(experiment_id, 0, new, closed))


def _append_params(
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


_SEARCHING = text("""
    SELECT e.config->'searcher' AS searcher, e.config->'hyperparameters' AS hyperparameters, e.seed, coalesce(s.seq, 0) AS seq
    FROM experiments e LEFT JOIN searches s ON s.experiment_id = e.id WHERE e.id = :id
""")
# The progress of a trial: its batches, or the time metric that it reported with validations.
_TRIALS = """
    SELECT t.id, t.request_id::text AS request_id, t.state::text AS state, t.searcher_metric AS value,
           {stopped_early} AS stopped_early, {waits} AS waits,
           coalesce(CASE WHEN jsonb_typeof(m.longest) = 'number' THEN m.longest::double precision END, t.total_batches) AS trained,
           {given} AS given
    FROM trials t, LATERAL (
        SELECT t.summary_metrics #> ARRAY['validation_metrics', cast(:unit AS text), 'max'] AS longest WHERE cast(:unit AS text) <> 'batches'
        UNION ALL SELECT NULL LIMIT 1) m
    WHERE t.experiment_id = :id ORDER BY t.id
"""
# The further columns that tables and charts of many trials need, a small part of a trial's row.
_GIVEN = f"""json_build_object('hparams', t.hparams, 'batches', t.total_batches, 'restarts', t.restarts,
    'startTime', {time("t.started_at")}, 'endTime', {time("t.ended_at")}, 'wallClockTime', (
        SELECT coalesce(sum(extract(epoch FROM coalesce(a.ended_at, now()) - a.started_at)), 0)
        FROM allocations a WHERE a.trial_id = t.id))"""
_TRIALS_OF = text(_TRIALS.format(given="NULL", stopped_early=STOPPED_EARLY, waits=WAITS_FOR_SEARCH))
_TRIALS_WITH = text(
    _TRIALS.format(given=_GIVEN, stopped_early=STOPPED_EARLY, waits=WAITS_FOR_SEARCH)
)
_SCORED = text(
    "SELECT hparams, searcher_metric FROM trials WHERE experiment_id = :id AND searcher_metric IS NOT NULL ORDER BY id"
)
_REQUEST_OF = text("SELECT request_id::text FROM trials WHERE id = :id")


@dataclass(frozen=True, slots=True)
class StoredSearch:
    """Hold the configuration that a search is made from, and the number of its events."""

    searcher: dict[str, Any]
    hyperparameters: dict[str, Any] | None
    seed: int
    seq: int


@dataclass(frozen=True, slots=True)
class SearchedTrial:
    id: int
    request_id: str
    state: str
    value: float | None  # the best of the searcher metric
    stopped_early: bool
    waits: bool  # for the search, without slots
    trained: float
    given: dict[str, Any]


def searching(tx: Tx, experiment_id: int) -> StoredSearch | None:
    row = tx.execute(_SEARCHING, {"id": experiment_id}).first()
    return None if row is None else StoredSearch(*row)


def trials_of(tx: Tx, experiment_id: int, unit: str, *, whole: bool) -> list[SearchedTrial]:
    """Return the trials; the whole ones with hyperparameters, times and restarts."""
    rows = tx.execute(_TRIALS_WITH if whole else _TRIALS_OF, {"id": experiment_id, "unit": unit})
    return [
        SearchedTrial(
            id=r.id,
            request_id=r.request_id,
            state=r.state,
            value=_finite(r.value),
            stopped_early=r.stopped_early,
            waits=r.waits,
            trained=r.trained,
            given=r.given or {},
        )
        for r in rows
    ]


def scored(tx: Tx, experiment_id: int) -> list[tuple[dict[str, Any], float]]:
    """Return the hyperparameters and the best metric of each trial that reported one."""
    return [
        (row.hparams, row.searcher_metric) for row in tx.execute(_SCORED, {"id": experiment_id})
    ]


def request_of(tx: Tx, trial_id: int) -> str:
    return str(tx.execute(_REQUEST_OF, {"id": trial_id}).scalar_one())


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
