"""Return a trial's next workload: train, validate, checkpoint or stop."""

from typing import Any

from det_controlplane.core.search import length_of
from det_controlplane.core.trials import workloads
from det_controlplane.core.trials.metrics import steps_problem
from det_controlplane.core.trials.workloads import Progress, Workload
from det_controlplane.db.trials import trial_reports
from det_controlplane.db.trials.trial_reports import WorkloadBasis
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, Missing


def next_of(ctx: Context, trial_id: int, steps: int) -> Workload:
    """Return the workload after `steps` batches. Missing: the configuration does not say, the training code decides."""
    problem = steps_problem(steps)
    if problem is not None:
        raise Invalid(f"trial {trial_id}: {problem}")
    with ctx.db.autocommit() as tx:
        row = trial_reports.work(tx, trial_id)
    if row is None:
        raise Missing(f"trial {trial_id} not found")
    plan = workloads.plan_of(row.config, row.hparams, _length(row))
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
    return workloads.next_workload(plan, progress)


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
