"""Verify and repair the numbers of trials and checkpoints that triggers keep for each experiment."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import text

from det_controlplane.db.engine.database import Database, Tx

MOST = 10_000  # experiments that one check returns
PART = 500  # experiments that one transaction repairs

_STORED = """
    SELECT e.id, e.project_id, coalesce(t.trials, 0)::integer AS trials, coalesce(c.complete, 0)::integer AS checkpoints,
           coalesce(c.size, 0)::bigint AS size
    FROM experiments e
    LEFT JOIN (SELECT experiment_id, count(*) AS trials FROM trials {of} GROUP BY experiment_id) t ON t.experiment_id = e.id
    LEFT JOIN (SELECT experiment_id, count(*) FILTER (WHERE state = 'COMPLETED') AS complete, sum(size) AS size
               FROM checkpoints WHERE state IN ('COMPLETED', 'PARTIALLY_DELETED') {and_of}
               GROUP BY experiment_id) c ON c.experiment_id = e.id"""
_ALL = _STORED.format(of="", and_of="")
_GIVEN = "experiment_id = ANY(cast(:ids AS integer[]))"
_SOME = f"{_STORED.format(of=f'WHERE {_GIVEN}', and_of=f'AND {_GIVEN}')} WHERE e.id = ANY(cast(:ids AS integer[]))"
_DIFFERENCES = text(f"""
    SELECT s.id AS experiment_id, n.trials AS kept_trials, s.trials, k.complete AS kept_checkpoints, s.checkpoints,
           k.size AS kept_size, s.size
    FROM ({_ALL}) s LEFT JOIN trial_counts n ON n.experiment_id = s.id LEFT JOIN checkpoint_counts k ON k.experiment_id = s.id
    WHERE (n.trials, n.project_id, k.complete, k.size) IS DISTINCT FROM (s.trials, s.project_id, s.checkpoints, s.size)
    ORDER BY s.id LIMIT {MOST}
""")
_LOCK_TRIALS = text(f"SELECT 1 FROM trial_counts WHERE {_GIVEN} ORDER BY experiment_id FOR UPDATE")
_LOCK_CHECKPOINTS = text(
    f"SELECT 1 FROM checkpoint_counts WHERE {_GIVEN} ORDER BY experiment_id FOR UPDATE"
)
_REPAIR = text(f"""
    WITH stored AS ({_SOME}),
    of_trials AS (
        INSERT INTO trial_counts (experiment_id, project_id, trials) SELECT id, project_id, trials FROM stored ORDER BY id
        ON CONFLICT (experiment_id) DO UPDATE SET project_id = excluded.project_id, trials = excluded.trials)
    INSERT INTO checkpoint_counts (experiment_id, complete, size) SELECT id, checkpoints, size FROM stored ORDER BY id
    ON CONFLICT (experiment_id) DO UPDATE SET complete = excluded.complete, size = excluded.size
""")


@dataclass(frozen=True, slots=True)
class Difference:
    """The kept and the counted numbers of an experiment. None means that no number is kept."""

    experiment_id: int
    kept_trials: int | None
    trials: int
    kept_checkpoints: int | None
    checkpoints: int
    kept_size: int | None
    size: int


def differences(db: Database) -> list[Difference]:
    """Count all trials and checkpoints; return up to MOST experiments with wrong numbers."""
    return [Difference(**row._mapping) for row in db.read(_DIFFERENCES)]


def repair(tx: Tx, experiment_ids: Sequence[int]) -> None:
    """Count the trials and checkpoints of experiments and store the numbers.

    Transactions that add or delete rows of these experiments wait: their triggers change the repaired numbers."""
    ids = {"ids": list(experiment_ids)}
    for statement in (_LOCK_TRIALS, _LOCK_CHECKPOINTS, _REPAIR):
        tx.execute(statement, ids)
