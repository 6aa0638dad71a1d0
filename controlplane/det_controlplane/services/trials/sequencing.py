"""Handing out a trial's next workload."""

from typing import Any

from sqlalchemy import text

from det_controlplane.core import workloads
from det_controlplane.core.search import length_of
from det_controlplane.core.workloads import Progress, Workload
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Missing

_TRIAL = text("""
    SELECT t.id, t.state::text AS state, t.stop_requested, t.parked, t.train_to, t.hparams, e.config, t.best_validation_id,
           e.best_trial_id = t.id AS holds_best, t.latest_validation_id,
           (SELECT m.total_batches FROM metrics m WHERE m.id = t.latest_validation_id) AS validated_at,
           (SELECT max(c.steps_completed) FROM checkpoints c WHERE c.trial_id = t.id AND c.state = 'COMPLETED') AS saved_at,
           EXISTS (SELECT 1 FROM allocations a WHERE a.trial_id = t.id AND a.state <> 'TERMINATED'
                   AND a.preempt_at IS NOT NULL) AS preempted
    FROM trials t JOIN experiments e ON e.id = t.experiment_id WHERE t.id = :id
""")


def next_of(ctx: Context, trial_id: int, steps: int) -> Workload:
    """What to do after `steps` batches. Missing: the configuration does not say, the training code decides."""
    with ctx.db.begin() as tx:
        row = tx.execute(_TRIAL, {"id": trial_id}).first()
    if row is None:
        raise Missing(f"trial {trial_id} not found")
    plan = workloads.plan_of(row.config, row.hparams, _length(row))
    if plan is None:
        raise Missing(
            f"trial {trial_id}: its configuration sets no length in batches; the training code decides"
        )
    is_best = bool(row.holds_best) and row.latest_validation_id == row.best_validation_id
    progress = Progress(
        steps=steps,
        validated_at=row.validated_at,
        validation_is_best=is_best,
        checkpointed_at=row.saved_at,
        stopping=bool(row.preempted or row.stop_requested or row.parked or row.state != "ACTIVE"),
    )
    return workloads.next_workload(plan, progress)


def _length(row: Any) -> Any:
    """The searcher's current operation, else the whole length."""
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
