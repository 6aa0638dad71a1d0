"""List the workloads of a trial: training, validation and checkpoint of the same step are three rows."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sqlalchemy import ColumnElement, literal_column, select, text

from det_controlplane.core.paging import Page, Sort
from det_controlplane.db import pages
from det_controlplane.db.engine import Tx
from det_controlplane.db.pages import Collection
from det_controlplane.db.views import CHECKPOINT_WORKLOAD, time

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
    FROM checkpoints c WHERE {kept}) s
    WHERE s.trial_id = :trial_id AND {chosen}"""
_CHOSEN = {
    "FILTER_OPTION_CHECKPOINT": "s.kind = 'checkpoint'",
    "FILTER_OPTION_VALIDATION": "s.kind = 'validation'",
    "FILTER_OPTION_CHECKPOINT_OR_VALIDATION": "s.kind IN ('checkpoint', 'validation')",
}
_ORDER: ColumnElement[Any] = literal_column("(s.steps, s.place, s.reported_at, s.checkpoint)")


@dataclass(frozen=True, slots=True)
class Options:
    descending: bool = False
    batch_metrics: bool = False
    skip_deleted: bool = False
    filter: str = ""
    group: str = ""


def page(tx: Tx, trial_id: int, page: Page, options: Options) -> str:
    chosen = _CHOSEN.get(options.filter, "true")
    found = _workloads(chosen, options.batch_metrics, options.skip_deleted)
    sort = Sort(descending=options.descending)
    return pages.find(tx, found, page, sort, {}, trial_id=trial_id)


@lru_cache
def _workloads(chosen: str, batch_metrics: bool, skip_deleted: bool) -> Collection:
    batches = "coalesce(m.batch_metrics, '[]')" if batch_metrics else "'[]'::jsonb"
    kept = "c.state <> 'DELETED'" if skip_deleted else "true"
    item: ColumnElement[Any] = literal_column(_ITEM.format(batches=batches))
    source = text(_SOURCE.format(kept=kept, chosen=chosen))
    return Collection("workloads", select(item).select_from(source), {"": _ORDER})
