"""Read curves of metrics: their names, steps, values at a step, and how the best one improved."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from det_controlplane.db.experiments import experiment_pages, experiments, offered_names
from det_controlplane.db.experiments.experiment_pages import Progress
from det_controlplane.db.trials import metric_curves
from det_controlplane.db.trials.metric_curves import Window
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, Missing
from det_controlplane.services.experiments import listing

__all__ = ["Window", "batches", "compared", "history", "names", "sample", "snapshot"]
MOST_BYTES = 64 * 1024 * 1024  # of the curves in one answer


def names(ctx: Context, experiment_ids: Sequence[int]) -> dict[str, Any]:
    for experiment_id in experiment_ids:
        _check(ctx, experiment_id)
    with ctx.db.autocommit() as tx:
        metrics = offered_names.metrics_of(tx, experiment_ids)
    return {
        "searcherMetrics": metric_curves.searched(ctx.db, experiment_ids),
        "trainingMetrics": [metric.name for metric in metrics if metric.group == "training"],
        "validationMetrics": [metric.name for metric in metrics if metric.group == "validation"],
        "metricNames": [{"group": metric.group, "name": metric.name} for metric in metrics],
    }


def progress(ctx: Context, experiment_ids: Sequence[int]) -> Progress:
    with ctx.db.autocommit() as tx:
        return experiment_pages.progress(tx, experiment_ids)


def batches(ctx: Context, experiment_id: int, group: str, name: str) -> list[int]:
    _check(ctx, experiment_id)
    return metric_curves.batches(ctx.db, experiment_id, group, name)


def snapshot(
    ctx: Context, experiment_id: int, group: str, name: str, at: int, margin: int
) -> list[dict[str, Any]]:
    _check(ctx, experiment_id)
    return metric_curves.snapshot(ctx.db, experiment_id, group, name, at, margin)


def compared(
    ctx: Context, trial_ids: Sequence[int], windows: Sequence[Window]
) -> list[dict[str, Any]]:
    """Return each trial with the curves of all windows."""
    bounded = [_bound_window(ctx, trial_ids, window) for window in windows]
    curves = [c for window in bounded for c in metric_curves.curves(ctx.db, trial_ids, window)]
    return [
        {
            "trial": json.loads(listing.trial(ctx, trial_id)),
            "metrics": [
                {"group": c.group, "type": type_of(c.group), "data": c.points}
                for c in curves
                if c.trial_id == trial_id
            ],
        }
        for trial_id in trial_ids
    ]


def sample(ctx: Context, experiment_id: int, trials: int, window: Window) -> list[dict[str, Any]]:
    """Return the curves of the best trials."""
    _check(ctx, experiment_id)
    best = metric_curves.best_trials(ctx.db, experiment_id, trials)
    ids = [trial.id for trial in best]
    curves = metric_curves.curves(ctx.db, ids, _bound_window(ctx, ids, window))
    points = {curve.trial_id: curve.points for curve in curves}
    return [
        {
            "trialId": trial.id,
            "hparams": trial.hparams,
            "searcherMetricValue": trial.value,
            "data": points.get(trial.id, []),
        }
        for trial in best
    ]


def _bound_window(ctx: Context, trial_ids: Sequence[int], window: Window) -> Window:
    """Return the window with fewer points a curve, if the curves would have more than MOST_BYTES."""
    size = metric_curves.point_bytes(ctx.db, trial_ids, window) * len(trial_ids)
    if size > MOST_BYTES:
        raise Invalid(
            f"one step of {len(trial_ids)} trials has about {size:,} bytes of metrics, {MOST_BYTES:,} are the most:"
            " ask for fewer trials, or name metrics by metricNames or metricIds"
        )
    return replace(window, most=min(window.most, MOST_BYTES // max(size, 1)))


def type_of(group: str) -> str:
    """Return the name that older clients have for a group."""
    types = ("training", "validation")
    return f"METRIC_TYPE_{group.upper() if group in types else 'UNSPECIFIED'}"


def history(ctx: Context, experiment_id: int) -> list[dict[str, Any]]:
    _check(ctx, experiment_id)
    return metric_curves.history(ctx.db, experiment_id)


def _check(ctx: Context, experiment_id: int) -> None:
    with ctx.db.autocommit() as tx:
        if not experiments.exists(tx, experiment_id):
            raise Missing(f"experiment {experiment_id} not found")
