"""What a trial did, step by step: training, validation and checkpoint of the same step in one row."""

from dataclasses import dataclass

from det_controlplane.core.paging import Page
from det_controlplane.db import pages
from det_controlplane.db.engine import Tx
from det_controlplane.db.pages import Listing
from det_controlplane.db.views import CHECKPOINT_WORKLOAD, time

_BATCHES = (
    "CASE WHEN cast(:batch_metrics AS boolean) THEN coalesce(m.batch_metrics, '[]') ELSE '[]' END"
)
_METRICS = f"""(SELECT json_build_object('totalBatches', m.total_batches, 'endTime', {time("m.reported_at")}, 'numInputs', 0,
    'metrics', json_build_object('avgMetrics', m.metrics, 'batchMetrics', {_BATCHES}))
    FROM metrics m WHERE m.trial_id = s.trial_id AND m.metric_group = '{{group}}' AND m.total_batches = s.steps
    AND NOT m.archived)"""
_ITEM = f"""json_build_object('training', {_METRICS.format(group="training")},
    'validation', {_METRICS.format(group="validation")},
    'checkpoint', (SELECT {CHECKPOINT_WORKLOAD} FROM checkpoints c WHERE c.trial_id = s.trial_id
                   AND c.steps_completed = s.steps AND (NOT cast(:skip_deleted AS boolean) OR c.state <> 'DELETED')
                   ORDER BY c.reported_at DESC LIMIT 1))"""
_STEPS = """(SELECT trial_id, total_batches AS steps, metric_group = 'validation' AS validated, false AS saved
             FROM metrics WHERE NOT archived AND total_batches IS NOT NULL AND metric_group IN ('training', 'validation')
             UNION ALL SELECT trial_id, steps_completed, false, state <> 'DELETED' OR NOT cast(:skip_deleted AS boolean)
             FROM checkpoints)"""
_SOURCE = f"""(SELECT trial_id, steps FROM {_STEPS} k WHERE trial_id = :trial_id GROUP BY trial_id, steps
    HAVING {{having}}) s"""
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
    source = _SOURCE.format(having=_HAVING.get(options.filter, "true"))
    order = f"s.steps {'DESC' if options.descending else 'ASC'}"
    params = {
        "trial_id": trial_id,
        "batch_metrics": options.batch_metrics,
        "skip_deleted": options.skip_deleted,
    }
    return pages.fetch(tx, Listing("workloads", _ITEM, source, (), order), page, params)
