"""Read and set how long logs are kept, and delete expired logs."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select, text, update

from det_controlplane.db.engine.database import Tx
from det_controlplane.db.logs import log_windows
from det_controlplane.db.schema import experiments, trials

# A task that can still write is not ended, so it keeps its lines. Each line has a span of its task, and `delete_old` removes
# the spans of tasks without lines: tasks that lost their lines before are not read again.
_WITH_SPANS = """(SELECT DISTINCT task_id FROM task_log_spans) s JOIN tasks k ON k.id = s.task_id
    LEFT JOIN trials t ON t.id = k.trial_id LEFT JOIN experiments e ON e.id = k.experiment_id"""
_PAST_RETENTION = """k.ended_at IS NOT NULL
    AND coalesce(t.log_retention_days, e.log_retention_days, :days) >= 0
    AND k.ended_at < cast(:now AS timestamptz)
        - make_interval(days => coalesce(t.log_retention_days, e.log_retention_days, :days))"""
_DELETE_OLD = text(f"""
    DELETE FROM task_logs WHERE ctid = ANY(ARRAY(
        SELECT l.ctid FROM {_WITH_SPANS} JOIN task_logs l ON l.task_id = k.id WHERE {_PAST_RETENTION} LIMIT :most))
""")
_WITHOUT_LINES = text(f"""
    SELECT k.id FROM {_WITH_SPANS}
    WHERE {_PAST_RETENTION} AND NOT EXISTS (SELECT 1 FROM task_logs l WHERE l.task_id = k.id)
""")


@dataclass(frozen=True, slots=True)
class TrialRetention:
    """Hold the end of a trial, and how many days its logs are kept; None: as long as the cluster says."""

    ended_at: datetime | None
    days: int | None


def delete_old(tx: Tx, default_days: int, now: datetime, most: int) -> int:
    """Delete at most `most` lines of tasks that ended long ago. Return the number of deleted lines."""
    values = {"days": default_days, "now": now}
    count = tx.execute(_DELETE_OLD, {**values, "most": most}).rowcount
    if count < most:
        log_windows.forget_spans(tx, list(tx.execute(_WITHOUT_LINES, values).scalars()))
    return count


@dataclass(frozen=True, slots=True)
class LogRetention:
    """Hold how many days logs of an experiment or a trial are kept; None: as long as the cluster says."""

    owner_id: int
    days: list[int | None]


_KEPT_OF_EXPERIMENT = text("""
    SELECT e.user_id AS owner_id, array_append(array(
        SELECT DISTINCT coalesce(t.log_retention_days, e.log_retention_days) FROM trials t WHERE t.experiment_id = e.id
    ), e.log_retention_days) AS days FROM experiments e WHERE e.id = :id
""")
_KEPT_OF_TRIAL = text("""
    SELECT e.user_id AS owner_id, ARRAY[coalesce(t.log_retention_days, e.log_retention_days)] AS days
    FROM trials t JOIN experiments e ON e.id = t.experiment_id WHERE t.id = :id
""")


def kept_of_experiment(tx: Tx, experiment_id: int) -> LogRetention | None:
    row = tx.execute(_KEPT_OF_EXPERIMENT, {"id": experiment_id}).first()
    return None if row is None else LogRetention(row.owner_id, row.days)


def kept_of_trial(tx: Tx, trial_id: int) -> LogRetention | None:
    row = tx.execute(_KEPT_OF_TRIAL, {"id": trial_id}).first()
    return None if row is None else LogRetention(row.owner_id, row.days)


def keep_of_experiment(tx: Tx, experiment_id: int, days: int) -> bool:
    """Set how long the logs of an experiment and its trials are kept; False if there is no such experiment."""
    statement = update(experiments).where(experiments.c.id == experiment_id)
    if not tx.execute(statement.values(log_retention_days=days)).rowcount:
        return False
    of_trials = update(trials).where(trials.c.experiment_id == experiment_id)
    tx.execute(of_trials.values(log_retention_days=days))
    return True


def keep_of_trial(tx: Tx, trial_id: int, days: int) -> bool:
    statement = update(trials).where(trials.c.id == trial_id).values(log_retention_days=days)
    return tx.execute(statement).rowcount > 0


def retention(tx: Tx, trial_id: int) -> TrialRetention | None:
    days = func.coalesce(trials.c.log_retention_days, experiments.c.log_retention_days)
    of_trial = select(trials.c.ended_at, days).join_from(trials, experiments)
    row = tx.execute(of_trial.where(trials.c.id == trial_id)).first()
    return None if row is None else TrialRetention(*row)
