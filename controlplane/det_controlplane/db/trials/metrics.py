"""Metric rows, one for each trial, group and step, and the columns of trials and experiments that reports change.

A batch of reports takes two statements: `lock` reads the trials, `store` writes everything. `core.trials.reports`
decides between them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, or_, text, update

from det_controlplane.core.lifecycle.experiment import ExperimentState
from det_controlplane.core.lifecycle.trial import TrialState
from det_controlplane.core.trials.metrics import MetricsReport
from det_controlplane.core.trials.reports import EarlierRun, ReportingTrial, StepReport, StepRow
from det_controlplane.db import schema
from det_controlplane.db.engine.database import Tx, as_json
from det_controlplane.db.experiments import experiments
from det_controlplane.db.experiments.experiments import ExperimentRow
from det_controlplane.db.trials import trials
from det_controlplane.db.trials.trials import TrialRow

MOST_TOGETHER = 32  # The LIMIT shows the planner this number; it would expect a hundred rows.
_WANTED = f"""(SELECT * FROM jsonb_to_recordset(cast(:reports AS jsonb))
    AS x (trial_id integer, run_id integer, metric_group text, steps integer) LIMIT {MOST_TOGETHER}) w
    JOIN trials t ON t.id = w.trial_id"""
# The columns of `ReportingTrial`. The LIMIT keeps the planner from reading the reports of all trials.
_PRESENT = """LEFT JOIN LATERAL (
    SELECT m.id, m.run_id, m.metrics FROM metrics m WHERE m.trial_id = t.id AND m.metric_group = w.metric_group
    AND m.total_batches = w.steps AND NOT m.archived LIMIT 1) p ON true"""
_STATE = """cast(t.xmin AS text), t.total_batches, t.searcher_metric, p.id, p.run_id, p.metrics,
    CASE WHEN w.run_id < t.run_id THEN
        (SELECT jsonb_build_array(coalesce(bool_or(a.run_id = w.run_id), false),
                                  min(a.start_steps) FILTER (WHERE a.run_id > w.run_id))
         FROM allocations a WHERE a.trial_id = t.id) END,
    w.run_id > t.run_id AND (SELECT x.unmanaged FROM experiments x WHERE x.id = t.experiment_id)"""
_LOCK = f"""
    SELECT t.id, t.run_id, t.summary_metrics, {_STATE} FROM {_WANTED} {_PRESENT}
    ORDER BY t.id FOR NO KEY UPDATE OF t"""
_LOCK_ALL = text(_LOCK)
_LOCK_FREE = text(f"{_LOCK} SKIP LOCKED")
_LOCK_WITH_EXPERIMENT = text(f"""
    SELECT {experiments.COLUMNS}, {trials.COLUMNS},
        jsonb_build_object('validation_metrics', coalesce(t.summary_metrics->'validation_metrics', '{{}}')), {_STATE}
    FROM {_WANTED} JOIN experiments e ON e.id = t.experiment_id JOIN jobs j ON j.id = e.job_id
    JOIN searches s ON s.experiment_id = e.id {_PRESENT}
    WHERE e.id = :id ORDER BY t.id FOR NO KEY UPDATE OF e, s, t
""")
# Trials that another transaction is changing or has changed are skipped.
_REPORTS = f"""
    WITH new AS MATERIALIZED (
        SELECT * FROM jsonb_to_recordset(cast(:rows AS jsonb)) AS x (trial_id integer, version text, run_id integer,
            metric_group text, steps integer, row_id bigint, metrics jsonb, batch_metrics jsonb, at timestamptz,
            summary jsonb, total_batches integer, latest boolean, best boolean, value double precision,
            seq bigint, event jsonb) LIMIT {MOST_TOGETHER}),
    unchanged AS (
        SELECT t.id FROM new n JOIN trials t ON t.id = n.trial_id AND cast(t.xmin AS text) = n.version
        FOR NO KEY UPDATE OF t SKIP LOCKED),
    added AS (
        INSERT INTO metrics (trial_id, run_id, metric_group, total_batches, metrics, batch_metrics, reported_at)
        SELECT trial_id, run_id, metric_group, steps, metrics, batch_metrics, at FROM new JOIN unchanged ON id = trial_id
        WHERE row_id IS NULL
        ON CONFLICT (trial_id, metric_group, total_batches) WHERE NOT archived AND total_batches IS NOT NULL DO NOTHING
        RETURNING id, trial_id),
    extended AS (
        UPDATE metrics m SET run_id = n.run_id, metrics = n.metrics FROM new n JOIN unchanged u ON u.id = n.trial_id
        WHERE m.id = n.row_id RETURNING m.id, m.trial_id),
    stored AS (
        UPDATE trials t SET summary_metrics = t.summary_metrics || n.summary, total_batches = n.total_batches,
            latest_validation_id = CASE WHEN n.latest THEN a.id ELSE t.latest_validation_id END,
            best_validation_id = CASE WHEN n.best THEN a.id ELSE t.best_validation_id END,
            searcher_metric = CASE WHEN n.best THEN n.value ELSE t.searcher_metric END
        FROM (TABLE added UNION ALL TABLE extended) a JOIN new n ON n.trial_id = a.trial_id WHERE t.id = a.trial_id
        RETURNING t.id, cast(t.xmin AS text) AS version)
"""
_STORE = text(f"{_REPORTS} SELECT id, version FROM stored")
# The events are appended as `searches.append` does, under the same guard of `seq`.
_STORE_WITH_EVENTS = text(f"""{_REPORTS},
    shown AS (
        UPDATE experiments SET progress = :progress, best_trial_id = coalesce(:best_trial_id, best_trial_id),
            best_metric = :best_metric
        WHERE id = :id AND :shown),
    event AS (
        INSERT INTO search_events (experiment_id, seq, event)
        SELECT :id, n.seq, n.event FROM new n JOIN searches s ON s.experiment_id = :id AND s.seq = :seq
        WHERE n.event IS NOT NULL)
    UPDATE searches SET seq = seq + :events
    WHERE experiment_id = :id AND seq = :seq AND (SELECT count(*) FROM stored) = :count
""")
_m = schema.metrics.c
_ARCHIVE = (
    update(schema.metrics)
    .where(
        _m.trial_id == bindparam("trial"),
        ~_m.archived,
        _m.run_id < bindparam("run"),
        or_(
            (_m.metric_group == bindparam("group")) & (_m.total_batches >= bindparam("steps")),
            _m.total_batches > bindparam("steps"),
        ),
    )
    .values(archived=True)
)
_REMAINING = text("""
    SELECT m.id, m.metric_group, m.total_batches, m.metrics, e.metric_name, e.smaller_is_better
    FROM trials t JOIN experiments e ON e.id = t.experiment_id JOIN metrics m ON m.trial_id = t.id AND NOT m.archived
    WHERE t.id = :trial ORDER BY m.total_batches, m.id
""")
_RESET = text("""
    UPDATE trials SET summary_metrics = cast(:summaries AS jsonb), total_batches = :total_batches,
        best_validation_id = :best_id, searcher_metric = :searcher_metric
    WHERE id = :trial RETURNING cast(xmin AS text)
""")
_EXPERIMENT, _TRIAL = len(fields(ExperimentRow)), len(fields(TrialRow))


@dataclass(frozen=True, slots=True)
class LockedExperiment:
    """An experiment under its lock, with the trials of a batch. The trials have only the summary of validations."""

    row: ExperimentRow
    rows: dict[int, TrialRow]
    trials: dict[int, ReportingTrial]


@dataclass(frozen=True, slots=True)
class NewReport:
    """A report to store: its row, the trial that it was checked against, and the results for a searcher."""

    trial: ReportingTrial
    report: MetricsReport
    row: StepRow
    at: datetime
    latest: bool = False  # the row is the trial's latest validation
    best: bool = False  # and its best one
    value: float | None = None  # of the searcher's metric
    event: dict[str, Any] | None = None


@dataclass(slots=True)
class ExperimentSummary:
    """The changes of reports to the experiment's own row."""

    progress: float | None
    best_metric: float | None
    best_trial_id: int | None = None  # None: as before
    shown: bool = False  # anything of it changes


@dataclass(frozen=True, slots=True)
class RemainingReport:
    """A report of a trial that still counts after a rollback."""

    id: int
    group: str
    steps: int | None
    metrics: dict[str, Any]
    searcher_metric: str  # its name
    smaller_is_better: bool


def lock(
    tx: Tx, reports: Iterable[MetricsReport], *, skip_locked: bool
) -> dict[int, ReportingTrial]:
    """Lock the trials of reports. With `skip_locked`, trials that another transaction has locked are left out.

    After a wait for the lock, the report of the step may be missing. `store` then does not store."""
    statement = _LOCK_FREE if skip_locked else _LOCK_ALL
    rows = tx.execute(statement, {"reports": _encode_keys(reports)})
    return {row[0]: _trial(row[0], row[1], row[2:]) for row in rows}


def lock_with_experiment(
    tx: Tx, experiment_id: int, reports: Iterable[MetricsReport]
) -> LockedExperiment | None:
    """Lock an experiment, its search and the trials of reports. Return None if the experiment does not exist."""
    params = {"id": experiment_id, "reports": _encode_keys(reports)}
    rows = tx.execute(_LOCK_WITH_EXPERIMENT, params).all()
    if not rows:
        return None
    experiment = ExperimentRow(*rows[0][:_EXPERIMENT])
    experiment.state = ExperimentState(experiment.state)
    locked = LockedExperiment(experiment, {}, {})
    for row in rows:
        trial = TrialRow(*row[_EXPERIMENT : _EXPERIMENT + _TRIAL])
        trial.state = TrialState(trial.state)
        locked.rows[trial.id] = trial
        locked.trials[trial.id] = _trial(trial.id, trial.run_id, row[_EXPERIMENT + _TRIAL :])
    return locked


def _encode_keys(reports: Iterable[MetricsReport]) -> str:
    return as_json(
        [
            {"trial_id": r.trial_id, "run_id": r.run_id, "metric_group": r.group, "steps": r.total_batches}
            for r in reports
        ]
    )  # fmt: skip


def _trial(id: int, run_id: int, columns: Sequence[Any]) -> ReportingTrial:
    summaries, version, total_batches, searcher_metric, *present, earlier, takes_any_run = columns
    return ReportingTrial(
        id, version, run_id, total_batches, summaries, searcher_metric,
        None if present[0] is None else StepReport(*present),
        None if earlier is None else EarlierRun(*earlier), bool(takes_any_run),
    )  # fmt: skip


def store(tx: Tx, new: Sequence[NewReport]) -> dict[int, ReportingTrial]:
    """Store reports of different trials. Return the trials with stored reports.

    A report is not stored if its trial is locked or has changed, or if its step has a report that it did not see."""
    by_trial = {one.trial.id: one for one in new}
    rows = tx.execute(_STORE, {"rows": as_json([_row(one) for one in new])})
    return {id: by_trial[id].trial.after(by_trial[id].row, version) for id, version in rows}


def store_with_events(
    tx: Tx, experiment: ExperimentRow, new: Sequence[NewReport], summary: ExperimentSummary
) -> bool:
    """Store reports with the events of the search. Return False if some could not be stored; then the transaction
    must be rolled back."""
    rows, seq = [], experiment.seq
    for one in new:
        seq += one.event is not None
        rows.append({**_row(one), "seq": seq})
    params = {
        "id": experiment.id, "seq": experiment.seq, "rows": as_json(rows), "count": len(rows),
        "events": seq - experiment.seq, "progress": summary.progress, "best_metric": summary.best_metric,
        "best_trial_id": summary.best_trial_id, "shown": summary.shown,
    }  # fmt: skip
    return tx.execute(_STORE_WITH_EVENTS, params).rowcount == 1


def _row(one: NewReport) -> dict[str, Any]:
    return {
        "trial_id": one.trial.id, "version": one.trial.version, "run_id": one.report.run_id,
        "metric_group": one.report.group, "steps": one.report.total_batches, "row_id": one.row.row_id,
        "metrics": one.row.metrics, "batch_metrics": one.report.batch_metrics, "at": one.at.isoformat(),
        "summary": one.row.summary, "total_batches": one.row.total_batches,
        # The value is a text, because JSON has no NaN and no infinity.
        "latest": one.latest, "best": one.best, "value": None if one.value is None else str(one.value),
        "event": one.event,
    }  # fmt: skip


def archive_older_runs(tx: Tx, report: MetricsReport) -> bool:
    """Archive reports of earlier runs from this step on. Return False if there are none."""
    params = {
        "trial": report.trial_id, "run": report.run_id, "group": report.group,
        "steps": report.total_batches,
    }  # fmt: skip
    return tx.execute(_ARCHIVE, params).rowcount > 0


def remaining(tx: Tx, trial_id: int) -> list[RemainingReport]:
    """Return the reports of a trial that still count, oldest first."""
    return [RemainingReport(*row) for row in tx.execute(_REMAINING, {"trial": trial_id})]


def reset(
    tx: Tx,
    trial_id: int,
    *,
    summaries: Mapping[str, Any],
    total_batches: int,
    best_id: int | None,
    searcher_metric: float | None,
) -> str:
    """Replace the values that follow from a trial's reports. Return the trial's version."""
    params = {
        "trial": trial_id, "summaries": as_json(summaries), "total_batches": total_batches,
        "best_id": best_id, "searcher_metric": searcher_metric,
    }  # fmt: skip
    return str(tx.execute(_RESET, params).scalar_one())
