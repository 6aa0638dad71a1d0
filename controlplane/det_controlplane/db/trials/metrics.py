"""Metric rows: one a trial, group and step."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Text, bindparam, func, or_, select, text, update
from sqlalchemy.dialects.postgresql import insert

from det_controlplane.core.lifecycle.trial import TrialState
from det_controlplane.db import schema
from det_controlplane.db.engine.database import Tx, as_json

_m, _t = schema.metrics.c, schema.trials.c
_INSERT = (
    insert(schema.metrics)
    .on_conflict_do_nothing(
        index_elements=["trial_id", "metric_group", "total_batches"],
        index_where=text("NOT archived AND total_batches IS NOT NULL"),
    )
    .returning(_m.id)
)
_OF_TRIAL = (_m.trial_id == bindparam("trial"), ~_m.archived)
_PRESENT = (
    select(_m.id, _m.metrics)
    .where(
        *_OF_TRIAL, _m.metric_group == bindparam("group"), _m.total_batches == bindparam("steps")
    )
    .with_for_update()
)
_MERGE = (
    update(schema.metrics)
    .where(_m.id == bindparam("row"))
    .values(run_id=bindparam("run"), metrics=bindparam("merged"))
)
_ARCHIVE = (
    update(schema.metrics)
    .where(
        *_OF_TRIAL,
        _m.run_id < bindparam("run"),
        or_(
            (_m.metric_group == bindparam("group")) & (_m.total_batches >= bindparam("steps")),
            _m.total_batches > bindparam("steps"),
        ),
    )
    .values(archived=True)
)
_OF_GROUP = (
    select(_m.metric_group, _m.metrics)
    .where(*_OF_TRIAL, _m.total_batches.is_not(None))
    .order_by(_m.total_batches, _m.id)
)
# Rows that only refer to the trial may be added meanwhile.
_TRIAL = (
    select(*_t["id", "experiment_id", "request_id", "run_id", "state", "summary_metrics", "total_batches",
               "searcher_metric", "best_validation_id", "latest_validation_id"])
    .where(_t.id == bindparam("trial"))
    .with_for_update(key_share=True)
)  # fmt: skip
_KEPT = (
    "summary_metrics",
    "total_batches",
    "searcher_metric",
    "best_validation_id",
    "latest_validation_id",
)
_SAVE = (
    update(schema.trials)
    .where(_t.id == bindparam("trial"))
    .values({name: bindparam(name) for name in _KEPT})
)
MOST_TOGETHER = 32  # The LIMIT shows the planner this number; it would expect a hundred rows.
# Trials that another transaction is changing or has changed are skipped. Their reports are stored alone and delay no
# other report.
_ADD_ALL = text(f"""
    WITH new AS MATERIALIZED (
        SELECT * FROM jsonb_to_recordset(cast(:rows AS jsonb)) AS x (trial_id integer, version text, run_id integer,
            metric_group text, steps integer, metrics jsonb, at timestamptz, summary jsonb) LIMIT {MOST_TOGETHER}),
    unchanged AS (
        SELECT t.id FROM new n JOIN trials t ON t.id = n.trial_id AND cast(t.xmin AS text) = n.version
        FOR NO KEY UPDATE OF t SKIP LOCKED),
    added AS (
        INSERT INTO metrics (trial_id, run_id, metric_group, total_batches, metrics, reported_at)
        SELECT trial_id, run_id, metric_group, steps, metrics, at FROM new JOIN unchanged ON id = trial_id
        ON CONFLICT (trial_id, metric_group, total_batches) WHERE NOT archived AND total_batches IS NOT NULL DO NOTHING
        RETURNING trial_id),
    stored AS (
        UPDATE trials t SET summary_metrics = t.summary_metrics || n.summary,
            total_batches = greatest(t.total_batches, n.steps)
        FROM added a JOIN new n ON n.trial_id = a.trial_id WHERE t.id = a.trial_id
        RETURNING t.id, cast(t.xmin AS text) AS version, t.run_id, t.total_batches)
    SELECT id, version, run_id, total_batches, NULL AS summaries FROM stored
    UNION ALL
    SELECT t.id, cast(t.xmin AS text), t.run_id, t.total_batches, t.summary_metrics
    FROM new n JOIN trials t ON t.id = n.trial_id WHERE t.id NOT IN (SELECT id FROM stored)
""")
_VALIDATIONS = (
    select(_m.id, _m.metrics.op("->>")(bindparam("metric", type_=Text())))
    .where(*_OF_TRIAL, _m.metric_group == "validation")
    .order_by(_m.total_batches, _m.id)
)
_MAX_STEPS = select(func.coalesce(func.max(_m.total_batches), 0)).where(*_OF_TRIAL)


@dataclass(slots=True)
class TrialMetrics:
    """Hold the columns of a trial that its reports change."""

    id: int
    experiment_id: int
    request_id: Any
    run_id: int
    state: TrialState
    summary_metrics: dict[str, Any]
    total_batches: int
    searcher_metric: float | None
    best_validation_id: int | None
    latest_validation_id: int | None


@dataclass(frozen=True, slots=True)
class ReportingTrial:
    """Hold the state of a trial that its report is checked against."""

    id: int
    version: str  # another one as soon as anything of the trial has changed
    run_id: int
    total_batches: int
    summaries: dict[str, dict[str, Any]]  # of its groups, by their names there


@dataclass(frozen=True, slots=True)
class NewReport:
    """Hold the row of metrics of one report, and its changes to its trial."""

    trial: ReportingTrial  # that the changes were made from
    run_id: int
    metric_group: str
    steps: int
    metrics: dict[str, Any]
    at: datetime
    key: str  # of the group in the summary
    summary: dict[str, Any]


def add_all(
    tx: Tx, new: Sequence[NewReport], asked: Sequence[int] = ()
) -> tuple[dict[int, ReportingTrial], dict[int, ReportingTrial]]:
    """Add reports of different trials, and change their trials.

    Return the trials with added reports, and the other trials with their present state, including the requested
    ones."""
    rows = [{"trial_id": trial_id} for trial_id in asked] + [
        {
            "trial_id": one.trial.id, "version": one.trial.version, "run_id": one.run_id,
            "metric_group": one.metric_group, "steps": one.steps, "metrics": one.metrics, "at": one.at.isoformat(),
            "summary": {one.key: one.summary},
        }
        for one in new
    ]  # fmt: skip
    summaries_by_id = {n.trial.id: {**n.trial.summaries, n.key: n.summary} for n in new}
    stored: dict[int, ReportingTrial] = {}
    others: dict[int, ReportingTrial] = {}
    for id, version, run_id, steps, summaries in tx.execute(_ADD_ALL, {"rows": as_json(rows)}):
        if summaries is None:
            stored[id] = ReportingTrial(id, version, run_id, steps, summaries_by_id[id])
        else:
            others[id] = ReportingTrial(id, version, run_id, steps, summaries)
    return stored, others


def lock_trial(tx: Tx, trial_id: int) -> TrialMetrics | None:
    row = tx.execute(_TRIAL, {"trial": trial_id}).first()
    return None if row is None else TrialMetrics(*row)


def save_trial(tx: Tx, trial: TrialMetrics) -> None:
    tx.execute(_SAVE, {"trial": trial.id, **{name: getattr(trial, name) for name in _KEPT}})


def add(
    tx: Tx,
    *,
    trial_id: int,
    run_id: int,
    group: str,
    total_batches: int | None,
    metrics: dict[str, Any],
    batch_metrics: list[Any] | None,
    at: datetime,
) -> int | None:
    """Add a report; return the new row's id, or None when the step has a report already."""
    values = {
        "trial_id": trial_id, "run_id": run_id, "metric_group": group, "reported_at": at,
        "total_batches": total_batches, "metrics": metrics, "batch_metrics": batch_metrics,
    }  # fmt: skip
    return tx.execute(_INSERT, values).scalar()


def present(tx: Tx, trial_id: int, group: str, total_batches: int) -> tuple[int, dict[str, Any]]:
    """Return the id and the metrics of the step's report."""
    params = {"trial": trial_id, "group": group, "steps": total_batches}
    row_id, metrics = tx.execute(_PRESENT, params).one()
    return row_id, metrics


def merge(tx: Tx, row_id: int, run_id: int, metrics: dict[str, Any]) -> None:
    tx.execute(_MERGE, {"row": row_id, "run": run_id, "merged": metrics})


def archive_older_runs(tx: Tx, trial_id: int, run_id: int, group: str, total_batches: int) -> int:
    """Archive reports of earlier runs from this step on, because a restarted trial repeats steps."""
    params = {"trial": trial_id, "run": run_id, "group": group, "steps": total_batches}
    return tx.execute(_ARCHIVE, params).rowcount


def all_reports(tx: Tx, trial_id: int) -> list[tuple[str, dict[str, Any]]]:
    """Return group and metrics of each report of a trial, oldest first."""
    return [tuple(row) for row in tx.execute(_OF_GROUP, {"trial": trial_id})]


def validations(tx: Tx, trial_id: int, metric: str) -> list[tuple[int, str | None]]:
    """Return ids and searcher metrics of a trial's validations, oldest first."""
    params = {"trial": trial_id, "metric": metric}
    return [tuple(row) for row in tx.execute(_VALIDATIONS, params)]


def max_steps(tx: Tx, trial_id: int) -> int:
    return int(tx.execute(_MAX_STEPS, {"trial": trial_id}).scalar_one())
