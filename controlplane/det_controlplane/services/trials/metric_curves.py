"""Looking at what experiments measured: names of metrics, steps, values at a step, how the best one improved."""

from collections.abc import Sequence
from typing import Any

from det_controlplane.db import experiments, metric_curves
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Missing


def names(ctx: Context, experiment_ids: Sequence[int]) -> dict[str, Any]:
    for experiment_id in experiment_ids:
        _check(ctx, experiment_id)
    found = metric_curves.names(ctx.db, experiment_ids)
    return {
        "searcherMetrics": metric_curves.searched(ctx.db, experiment_ids),
        "trainingMetrics": [name for group, name in found if group == "training"],
        "validationMetrics": [name for group, name in found if group == "validation"],
        "metricNames": [{"group": group, "name": name} for group, name in found],
    }


def batches(ctx: Context, experiment_id: int, group: str, name: str) -> list[int]:
    _check(ctx, experiment_id)
    return metric_curves.batches(ctx.db, experiment_id, group, name)


def snapshot(
    ctx: Context, experiment_id: int, group: str, name: str, at: int, margin: int
) -> list[dict[str, Any]]:
    _check(ctx, experiment_id)
    return metric_curves.snapshot(ctx.db, experiment_id, group, name, at, margin)


def history(ctx: Context, experiment_id: int) -> list[dict[str, Any]]:
    _check(ctx, experiment_id)
    return metric_curves.history(ctx.db, experiment_id)


def _check(ctx: Context, experiment_id: int) -> None:
    with ctx.db.autocommit() as tx:
        if not experiments.exists(tx, experiment_id):
            raise Missing(f"experiment {experiment_id} not found")
