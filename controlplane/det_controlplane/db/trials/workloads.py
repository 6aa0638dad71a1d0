"""List the workloads of a trial: training, validation and checkpoint of the same step are three rows."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sqlalchemy import ColumnElement, Text, literal_column, select, text

from det_controlplane.core.paging import Page, Sort
from det_controlplane.db.engine import pages
from det_controlplane.db.engine.database import Database
from det_controlplane.db.engine.pages import Collection
from det_controlplane.db.engine.views import CHECKPOINT_WORKLOAD, time

_METRICS = f"""json_build_object('totalBatches', m.total_batches, 'endTime', {time("m.reported_at")}, 'numInputs', 0,
    'metrics', json_build_object('avgMetrics', m.metrics, 'batchMetrics', {{batches}}))"""
# Looked up by key for the rows of the page only.
_ITEM = f"""CASE s.kind WHEN 'checkpoint'
    THEN (SELECT json_build_object(s.kind, {CHECKPOINT_WORKLOAD}) FROM checkpoints c WHERE c.uuid = s.checkpoint)
    ELSE (SELECT json_build_object(s.kind, {_METRICS}) FROM metrics m WHERE m.id = s.metrics) END"""
_SOURCE = """(SELECT m.trial_id, m.total_batches AS steps, CASE m.metric_group WHEN 'training' THEN 1 ELSE 2 END AS place,
        m.reported_at, m.metric_group::text AS kind, m.id AS metrics, NULL::uuid AS checkpoint
    FROM metrics m WHERE NOT m.archived AND m.total_batches IS NOT NULL AND m.metric_group IN ('training', 'validation')
    UNION ALL SELECT c.trial_id, c.steps_completed, 3, c.reported_at, 'checkpoint', NULL, c.uuid
    FROM checkpoints c WHERE {kept}) s {joined}"""
# The metric that entries are ordered by, where it is a number: the one reported at the step of the entry.
_MEASURED = """LEFT JOIN (SELECT v.total_batches, (v.metrics->>:sort_key)::float8 AS value FROM metrics v
        WHERE v.trial_id = :trial_id AND v.metric_group = :group AND NOT v.archived AND v.total_batches IS NOT NULL
          AND jsonb_typeof(v.metrics->:sort_key) = 'number') v ON v.total_batches = s.steps"""
_CHOSEN = {
    "": "true",
    "CHECKPOINT": "s.kind = 'checkpoint'",
    "VALIDATION": "s.kind = 'validation'",
    "CHECKPOINT_OR_VALIDATION": "s.kind IN ('checkpoint', 'validation')",
}
_BY_STEP: dict[str, ColumnElement[Any]] = {
    "": literal_column("(s.steps, s.place, s.reported_at, s.checkpoint)")
}
_KEY = literal_column("coalesce(s.metrics::text, s.checkpoint::text)", Text)
_BY_METRIC = {**_BY_STEP, Sort.BY_METRIC: literal_column("v.value")}
FILTERS = tuple(_CHOSEN)


@dataclass(frozen=True, slots=True)
class Options:
    filter: str  # one of FILTERS
    batch_metrics: bool
    skip_deleted: bool
    group: str  # of the metric that is sorted by


def page(db: Database, trial_id: int, page: Page, sort: Sort, options: Options) -> Iterator[str]:
    """Return entries by step, or by the metric in `sort`. Entries without the metric come last."""
    collection = _workloads(
        options.filter, options.batch_metrics, options.skip_deleted, bool(sort.metric)
    )
    by_metric = {"sort_key": sort.metric, "group": options.group} if sort.metric else {}
    return pages.find(db, collection, page, sort, {}, trial_id=trial_id, **by_metric)


@lru_cache
def _workloads(
    filter_name: str, batch_metrics: bool, skip_deleted: bool, by_metric: bool
) -> Collection:
    batches = "coalesce(m.batch_metrics, '[]')" if batch_metrics else "'[]'::jsonb"
    condition = "c.state NOT IN ('ACTIVE', 'DELETED')" if skip_deleted else "c.state <> 'ACTIVE'"
    join = _MEASURED if by_metric else ""
    item: ColumnElement[Any] = literal_column(_ITEM.format(batches=batches))
    source = text(_SOURCE.format(kept=condition, joined=join))
    of_trial = text(f"s.trial_id = :trial_id AND {_CHOSEN[filter_name]}")
    orders = _BY_METRIC if by_metric else _BY_STEP
    return Collection(
        "workloads", select(item).select_from(source).where(of_trial), orders, key=_KEY
    )
