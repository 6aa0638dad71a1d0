"""Series of profilers: measurements of a trial's machines by agent, GPU and name.

Harnesses report samples as metrics of groups such as `cpu`, by agent and UUID of the GPU. Older harnesses send
points of a series, which are stored in the same form with their batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import insert, text

from det_controlplane.db.engine.database import Tx
from det_controlplane.db.engine.views import time
from det_controlplane.db.schema import metrics

SYSTEM, TIMING, MISC = "system", "timing", "misc"
_GROUPS = ("cpu", "disk", "gpu", "memory", "network", SYSTEM, TIMING, MISC)
_POINTS = """
    SELECT m.id, m.reported_at, coalesce(m.total_batches, (m.metrics->>'batches')::integer, 0) AS batches,
        CASE WHEN m.metric_group IN ('timing', 'misc') THEN m.metric_group ELSE 'system' END AS kind,
        a.key AS agent_id, p.gpu_uuid, p.name, p.value
    FROM metrics m CROSS JOIN LATERAL jsonb_each(m.metrics) a CROSS JOIN LATERAL (
        SELECT '' AS gpu_uuid, n.key AS name, n.value FROM jsonb_each(
            CASE WHEN jsonb_typeof(a.value) = 'object' THEN a.value ELSE '{}' END) n
        UNION ALL SELECT n.key, g.key, g.value FROM jsonb_each(
            CASE WHEN jsonb_typeof(a.value) = 'object' THEN a.value ELSE '{}' END) n, jsonb_each(
            CASE WHEN jsonb_typeof(n.value) = 'object' THEN n.value ELSE '{}' END) g) p
    WHERE m.trial_id = :trial_id AND m.metric_group = ANY(cast(:groups AS text[])) AND jsonb_typeof(p.value) = 'number'
"""
MOST_SERIES, LONGEST_LABEL = 2_000, 200
_SERIES = text(f"""
    SELECT DISTINCT kind, name, agent_id, gpu_uuid FROM ({_POINTS}) x
    WHERE greatest(length(name), length(agent_id), length(gpu_uuid)) <= {LONGEST_LABEL} ORDER BY 1, 2, 3, 4 LIMIT {MOST_SERIES}
""")
_OF_SERIES = text(f"""
    SELECT x.kind, x.name, x.agent_id, x.gpu_uuid, array_agg((x.value#>>'{{}}')::float8 ORDER BY x.reported_at, x.id) AS values,
        array_agg(x.batches ORDER BY x.reported_at, x.id) AS batches,
        array_agg({time("x.reported_at")} ORDER BY x.reported_at, x.id) AS timestamps
    FROM ({_POINTS}) x
    WHERE x.name = :name AND (cast(:kind AS text) = '' OR x.kind = :kind)
      AND (cast(:agent_id AS text) = '' OR x.agent_id = :agent_id) AND (cast(:gpu_uuid AS text) = '' OR x.gpu_uuid = :gpu_uuid)
    GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4
""")


@dataclass(frozen=True, slots=True)
class Labels:
    """The name of a series; where series are looked for, an empty part stands for any."""

    kind: str
    name: str
    agent_id: str
    gpu_uuid: str


@dataclass(frozen=True, slots=True)
class Series:
    labels: Labels
    values: list[float]
    batches: list[int]
    timestamps: list[str]


@dataclass(frozen=True, slots=True)
class Point:
    value: float
    batches: int
    at: datetime


def labels_of(tx: Tx, trial_id: int) -> list[Labels]:
    """Return the series of a trial: MOST_SERIES at most, none with a label of more than LONGEST_LABEL characters."""
    params = {"trial_id": trial_id, "groups": list(_GROUPS)}
    return [Labels(*row) for row in tx.execute(_SERIES, params)]


def series(tx: Tx, trial_id: int, wanted: Labels) -> list[Series]:
    params = {
        "trial_id": trial_id, "groups": list(_GROUPS), "name": wanted.name, "kind": wanted.kind,
        "agent_id": wanted.agent_id, "gpu_uuid": wanted.gpu_uuid,
    }  # fmt: skip
    return [Series(Labels(*row[:4]), *row[4:]) for row in tx.execute(_OF_SERIES, params)]


def add(tx: Tx, trial_id: int, labels: Labels, points: Sequence[Point]) -> None:
    """Store points of a series as a harness of today would have reported them."""
    rows = [_row(trial_id, labels, point) for point in points]
    if rows:
        tx.execute(insert(metrics), rows)


def _row(trial_id: int, labels: Labels, point: Point) -> dict[str, Any]:
    sample: dict[str, Any] = {labels.name: point.value}
    if labels.gpu_uuid:
        sample = {labels.gpu_uuid: sample}
    return {
        "trial_id": trial_id, "run_id": 0, "metric_group": labels.kind, "reported_at": point.at,
        "metrics": {labels.agent_id: sample, "batches": point.batches},
    }  # fmt: skip
