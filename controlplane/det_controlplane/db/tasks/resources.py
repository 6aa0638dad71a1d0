"""Rows of the resources that containers used."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import text

from det_controlplane.db.engine.database import Database, Tx
from det_controlplane.db.engine.views import time

COARSE_S = 600
CONTAINERS_AT_ONCE, ROWS_LOOKED_AT = 50, 5_000
_RATES = ("cpu", "disk_read", "disk_write", "net_received", "net_sent")
_LARGEST = ("cpu_limit", "memory", "memory_limit")
VALUES = ("cpu", "cpu_limit", "memory", "memory_limit", *_RATES[1:])
_COLUMNS = ", ".join(VALUES)
_TYPED = ", ".join(f"{name} real" for name in VALUES)
# An agent stores samples of its own containers only. A repeated sample has no effect.
_ADD = text(f"""
    INSERT INTO resource_samples (container_id, started_at, seconds, {_COLUMNS}, gpus)
    SELECT c.id, to_timestamp(x.start), x.seconds, {", ".join(f"x.{name}" for name in VALUES)}, x.gpus
    FROM jsonb_to_recordset(cast(:samples AS jsonb)) AS x (container_id uuid, start float8, seconds real, {_TYPED}, gpus jsonb)
    JOIN containers c ON c.id = x.container_id AND c.agent_id = :agent_id
    ON CONFLICT DO NOTHING
""")
_MEANS = ", ".join(
    f"sum({name} * seconds) / nullif(sum(seconds) FILTER (WHERE {name} IS NOT NULL), 0) AS {name}"
    for name in _RATES
)
_MAXIMA = ", ".join(f"max({name}) AS {name}" for name in _LARGEST)
# Merge samples of a container with the same `part`. Rates are means over the time, and memory is the largest value.
_MERGED = f"""
    gpu_parts AS (
        SELECT container_id, part, (g.value->>0)::integer AS slot,
            sum((g.value->>1)::float8 * seconds)
                / nullif(sum(seconds) FILTER (WHERE g.value->>1 IS NOT NULL), 0) AS util,
            max((g.value->>2)::float8) AS memory, max((g.value->>3)::float8) AS memory_limit
        FROM parts CROSS JOIN LATERAL jsonb_array_elements(gpus) g GROUP BY 1, 2, 3),
    gpu_sets AS (
        SELECT container_id, part, jsonb_agg(jsonb_build_array(
            slot, round(util::numeric, 1), memory, memory_limit) ORDER BY slot) AS gpus
        FROM gpu_parts GROUP BY 1, 2),
    merged AS (
        SELECT container_id, part, min(started_at) AS started_at, sum(seconds) AS seconds, {_MEANS}, {_MAXIMA}
        FROM parts GROUP BY 1, 2)"""
_OF_TASK = text(f"""
    WITH mine AS (
        SELECT s.*, c.agent_id FROM allocations a JOIN containers c ON c.allocation_id = a.id
        JOIN resource_samples s ON s.container_id = c.id
        WHERE a.task_id = :task_id AND (cast(:since AS timestamptz) IS NULL OR s.started_at >= :since)),
    width AS (SELECT greatest(extract(epoch FROM max(started_at) - min(started_at)) / :most, 1) AS s FROM mine),
    parts AS (SELECT mine.*, floor(extract(epoch FROM started_at) / width.s) AS part FROM mine, width), {_MERGED}
    SELECT c.agent_id, {time("m.started_at")} AS at, m.seconds, {", ".join(f"m.{name}" for name in VALUES)}, g.gpus
    FROM merged m JOIN containers c ON c.id = m.container_id
    LEFT JOIN gpu_sets g ON g.container_id = m.container_id AND g.part = m.part ORDER BY c.agent_id, m.started_at
""")
_OLD = text(f"""
    SELECT DISTINCT container_id FROM (
        SELECT container_id FROM resource_samples WHERE NOT coarse AND started_at < :before
        ORDER BY started_at LIMIT {ROWS_LOOKED_AT}) x LIMIT {CONTAINERS_AT_ONCE}
""")
_THIN = text(f"""
    WITH gone AS (
        DELETE FROM resource_samples WHERE container_id = ANY(cast(:ids AS uuid[])) AND NOT coarse
            AND started_at < :before RETURNING *),
    parts AS (SELECT gone.*, floor(extract(epoch FROM started_at) / {COARSE_S}) AS part FROM gone), {_MERGED}
    INSERT INTO resource_samples (container_id, started_at, seconds, {_COLUMNS}, gpus, coarse)
    SELECT m.container_id, m.started_at, m.seconds, {", ".join(f"m.{name}" for name in VALUES)}, g.gpus, true
    FROM merged m LEFT JOIN gpu_sets g ON g.container_id = m.container_id AND g.part = m.part
""")
_DUE = text("""
    SELECT EXISTS (SELECT FROM resource_samples WHERE NOT coarse AND started_at < :merge_before) AS merge,
        EXISTS (SELECT FROM resource_samples WHERE coarse AND started_at < cast(:delete_before AS timestamptz)) AS delete
""")
_DELETE_OLD = text(f"""
    DELETE FROM resource_samples WHERE (container_id, started_at) IN (
        SELECT container_id, started_at FROM resource_samples WHERE coarse AND started_at < :before
        ORDER BY started_at LIMIT {ROWS_LOOKED_AT})
""")


@dataclass(frozen=True, slots=True)
class UsageRow:
    """The resources that a container used from a time on."""

    agent_id: str
    at: str  # RFC 3339
    seconds: float
    cpu: float | None
    cpu_limit: float | None
    memory: float | None
    memory_limit: float | None
    disk_read: float | None
    disk_write: float | None
    net_received: float | None
    net_sent: float | None
    gpus: list[list[Any]] | None


def add(tx: Tx, agent_id: str, samples: Sequence[dict[str, Any]]) -> None:
    tx.execute(_ADD, {"agent_id": agent_id, "samples": json.dumps(list(samples))})


def of_task(db: Database, task_id: str, since: datetime | None, most: int) -> list[UsageRow]:
    """Return the samples of a task by agent and time. Long spans are merged to about `most` samples an agent."""
    rows = db.read(_OF_TASK, {"task_id": task_id, "since": since, "most": most})
    return [UsageRow(**row._mapping) for row in rows]


class Due(NamedTuple):
    """The kinds of old samples that a table has."""

    merge: bool
    delete: bool


def due(tx: Tx, merge_before: datetime, delete_before: datetime | None) -> Due:
    """Return whether samples are old enough to be merged, and whether merged ones are old enough to be deleted."""
    times = {"merge_before": merge_before, "delete_before": delete_before}
    return Due(*tx.execute(_DUE, times).one())


def thin(tx: Tx, before: datetime) -> bool:
    """Merge samples before a time, which is a multiple of COARSE_S. Return whether more may be left."""
    ids = list(tx.execute(_OLD, {"before": before}).scalars())
    if ids:
        tx.execute(_THIN, {"ids": ids, "before": before})
    return bool(ids)


def delete_old(tx: Tx, before: datetime) -> bool:
    """Delete some of the merged samples before a time. Return whether more are left."""
    return tx.execute(_DELETE_OLD, {"before": before}).rowcount == ROWS_LOOKED_AT
