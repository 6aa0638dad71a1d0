"""List the workloads of a trial, and choose its next workload: train, validate, checkpoint or stop."""

from collections.abc import Iterator
from typing import Any

from det_controlplane.core.paging import Page, Sort
from det_controlplane.core.search import length_of
from det_controlplane.core.trials.metrics import steps_problem
from det_controlplane.core.trials.workloads import Progress, Workload, next_workload, plan_of
from det_controlplane.db.trials import trial_reports, trials, workloads
from det_controlplane.db.trials.trial_reports import WorkloadBasis
from det_controlplane.db.trials.workloads import FILTERS, Options
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, Missing

__all__ = ["FILTERS", "Options", "next_of", "of_trial"]


def of_trial(
    ctx: Context, trial_id: int, page: Page, sort: Sort, options: Options
) -> Iterator[str]:
    if not trials.known(ctx.db, [trial_id]):
        raise Missing(f"trial {trial_id} not found")
    return workloads.page(ctx.db, trial_id, page, sort, options)


def next_of(ctx: Context, trial_id: int, steps: int) -> Workload:
    """Return the workload after `steps` batches. Missing: the configuration does not say, the training code decides."""
    problem = steps_problem(steps)
    if problem is not None:
        raise Invalid(f"trial {trial_id}: {problem}")
    with ctx.db.autocommit() as tx:
        row = trial_reports.work(tx, trial_id)
    if row is None:
        raise Missing(f"trial {trial_id} not found")
    plan = plan_of(row.config, row.hparams, _length(row))
    if plan is None:
        raise Missing(
            f"trial {trial_id}: its configuration sets no length in batches; the training code decides"
        )
    progress = Progress(
        steps=steps,
        validated_at=row.validated_at,
        validation_is_best=row.newest_is_best,
        checkpointed_at=row.saved_at,
        stopping=row.preempted or row.stop_requested or row.parked or row.state != "ACTIVE",
    )
    return next_workload(plan, progress)


def _length(row: WorkloadBasis) -> Any:
    """Return the length of the searcher's current operation, else the whole length."""
    searcher: dict[str, Any] = row.config.get("searcher") or {}
    whole = searcher.get("max_length")
    if row.train_to is None:
        return whole if whole is not None else _time_in_batches(searcher)
    unit = next(iter(whole)) if isinstance(whole, dict) else searcher.get("unit") or "batches"
    return {unit: length_of(row.train_to)}


def _time_in_batches(searcher: dict[str, Any]) -> Any:
    metric = searcher.get("time_metric")
    return (
        {metric: searcher.get("max_time")} if metric in ("batches", "epochs", "records") else None
    )
