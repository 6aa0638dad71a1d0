"""What a trial did, step by step: training, validation and checkpoint of the same step in one row."""

from dataclasses import dataclass
from functools import lru_cache

from sqlalchemy import literal_column, select, text

from det_controlplane.core.paging import Page, Sort
from det_controlplane.db import pages
from det_controlplane.db.engine import Tx
from det_controlplane.db.pages import Collection
from det_controlplane.db.views import CHECKPOINT_WORKLOAD, shown, time

_METRICS = f"""(SELECT json_build_object('totalBatches', m.total_batches, 'endTime', {time("m.reported_at")}, 'numInputs', 0,
    'metrics', json_build_object('avgMetrics', m.metrics, 'batchMetrics', {{batches}}))
    FROM metrics m WHERE m.trial_id = s.trial_id AND m.metric_group = '{{group}}' AND m.total_batches = s.steps
    AND NOT m.archived)"""
_CHECKPOINT = f"""(SELECT {CHECKPOINT_WORKLOAD} FROM checkpoints c WHERE c.trial_id = s.trial_id
    AND c.steps_completed = s.steps AND {{kept}} ORDER BY c.reported_at DESC LIMIT 1)"""
_SOURCE = """(SELECT trial_id, steps FROM (
        SELECT trial_id, total_batches AS steps, metric_group = 'validation' AS validated, false AS saved
        FROM metrics WHERE NOT archived AND total_batches IS NOT NULL AND metric_group IN ('training', 'validation')
        UNION ALL SELECT trial_id, steps_completed, false, {kept} FROM checkpoints c) k
    WHERE trial_id = :trial_id GROUP BY trial_id, steps HAVING {having}) s"""
_HAVING = {
    "FILTER_OPTION_CHECKPOINT": "bool_or(saved)",
    "FILTER_OPTION_VALIDATION": "bool_or(validated)",
    "FILTER_OPTION_CHECKPOINT_OR_VALIDATION": "bool_or(saved) OR bool_or(validated)",
}


@dataclass(frozen=True, slots=True)
class Options:
    descending: bool = False
    batch_metrics: bool = False
    skip_deleted: bool = False
    filter: str = ""
    group: str = ""


def page(tx: Tx, trial_id: int, page: Page, options: Options) -> str:
    having = _HAVING.get(options.filter, "true")
    steps = _steps(having, options.batch_metrics, options.skip_deleted)
    sort = Sort(descending=options.descending)
    return pages.find(tx, steps, page, sort, {}, trial_id=trial_id)


@lru_cache
def _steps(having: str, batch_metrics: bool, skip_deleted: bool) -> Collection:
    batches = "coalesce(m.batch_metrics, '[]')" if batch_metrics else "'[]'::jsonb"
    kept = "c.state <> 'DELETED'" if skip_deleted else "true"
    item = shown(
        training=literal_column(_METRICS.format(group="training", batches=batches)),
        validation=literal_column(_METRICS.format(group="validation", batches=batches)),
        checkpoint=literal_column(_CHECKPOINT.format(kept=kept)),
    )
    source = text(_SOURCE.format(kept=kept, having=having))
    return Collection(
        "workloads", select(item).select_from(source), {"": literal_column("s.steps")}
    )
