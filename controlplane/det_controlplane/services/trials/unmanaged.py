"""Unmanaged trials run elsewhere and only report; one that falls silent has failed (facts §2.6)."""

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import text

from det_controlplane.core.lifecycle.trial import TrialState
from det_controlplane.db import trials
from det_controlplane.db.engine import Tx
from det_controlplane.db.trials import NewTrial
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Missing, WrongState

SILENCE = timedelta(minutes=5)

_SILENT = text("""
    SELECT t.id FROM trials t JOIN experiments e ON e.id = t.experiment_id
    WHERE e.unmanaged AND t.ended_at IS NULL AND t.heartbeat_at <= :before ORDER BY t.id
""")
_NEXT = text("""
    SELECT min(t.heartbeat_at) FROM trials t JOIN experiments e ON e.id = t.experiment_id
    WHERE e.unmanaged AND t.ended_at IS NULL AND t.heartbeat_at IS NOT NULL
      AND e.id IN (SELECT id FROM experiments WHERE state IN ('ACTIVE', 'PAUSED'))
""")
_HEARTBEAT = text("UPDATE trials SET heartbeat_at = :now WHERE id = :id AND ended_at IS NULL")
_END = text("""
    UPDATE trials SET state = cast(:state AS trial_state), ended_at = :now WHERE id = :id AND ended_at IS NULL
""")
_END_EXPERIMENT = text("""
    UPDATE experiments SET state = cast(:state AS experiment_state), ended_at = :now
    WHERE id = (SELECT experiment_id FROM trials WHERE id = :id) AND ended_at IS NULL
""")


def heartbeat(ctx: Context, trial_id: int, state: str | None) -> None:
    """`PATCH /trials/{id}`: still there, or ended."""
    with ctx.db.begin() as tx:
        if state is None or not TrialState(state).terminal:
            tx.execute(_HEARTBEAT, {"id": trial_id, "now": ctx.now()})
        else:
            _end(tx, trial_id, state, ctx.now())


def end_silent_trials(ctx: Context) -> None:
    now = ctx.now()
    with ctx.db.begin() as tx:
        for row in tx.execute(_SILENT, {"before": now - SILENCE}).all():
            _end(tx, row.id, "ERROR", now)


def next_due(tx: Tx) -> datetime | None:
    oldest: datetime | None = tx.execute(_NEXT).scalar()
    return None if oldest is None else oldest + SILENCE


def _end(tx: Tx, trial_id: int, state: str, now: datetime) -> None:
    params = {"id": trial_id, "state": state, "now": now}
    if tx.execute(_END, params).rowcount:
        tx.execute(_END_EXPERIMENT, params)


_EXPERIMENT = text(
    "SELECT id, unmanaged, job_id, state::text AS state FROM experiments WHERE id = :id"
)
_BY_EXTERNAL = text(
    "SELECT id FROM trials WHERE experiment_id = :experiment_id AND external_id = :external_id"
)
_SET_EXTERNAL = text(
    "UPDATE trials SET external_id = :external_id, heartbeat_at = :now WHERE id = :id"
)
_START = text("""
    UPDATE trials SET run_id = run_id + 1, heartbeat_at = :now, state = 'ACTIVE', ended_at = NULL
    WHERE id = :id RETURNING run_id, total_batches
""")
_REOPEN = text("""
    UPDATE experiments SET state = 'ACTIVE', ended_at = NULL
    WHERE unmanaged AND id = (SELECT experiment_id FROM trials WHERE id = :id) AND state IN ('COMPLETED', 'CANCELED', 'ERROR')
""")
_LATEST = text("""
    SELECT uuid, steps_completed FROM checkpoints WHERE trial_id = :id AND state = 'COMPLETED'
    ORDER BY steps_completed DESC, reported_at DESC LIMIT 1
""")


def create_trial(
    ctx: Context, experiment_id: int, hparams: dict[str, Any], external_id: str | None
) -> int:
    """A trial that runs elsewhere. The same external id always is the same trial."""
    now, request_id = ctx.now(), ctx.new_uuid()
    with ctx.db.begin() as tx:
        experiment = tx.execute(_EXPERIMENT, {"id": experiment_id}).first()
        if experiment is None:
            raise Missing(f"experiment {experiment_id} not found")
        if not experiment.unmanaged:
            raise WrongState(
                f"experiment {experiment_id} is managed: its searcher creates the trials"
            )
        if external_id is not None:
            params = {"experiment_id": experiment_id, "external_id": external_id}
            found = tx.execute(_BY_EXTERNAL, params).scalar()
            if found is not None:
                return int(found)
        new = NewTrial(
            experiment_id=experiment_id, request_id=request_id, state=TrialState.ACTIVE, hparams=hparams,
            seed=ctx.new_seed(), task_id=f"{experiment_id}.{request_id}", warm_start_uuid=None,
            job_id=experiment.job_id, context_id=None,
        )  # fmt: skip
        trial_id = trials.insert(tx, new, now)
        tx.execute(_SET_EXTERNAL, {"id": trial_id, "external_id": external_id, "now": now})
    return trial_id


def start_trial(ctx: Context, trial_id: int, resume: bool) -> dict[str, Any]:
    """A new run of the trial; with `resume` it goes on from the latest checkpoint."""
    with ctx.db.begin() as tx:
        row = tx.execute(_START, {"id": trial_id, "now": ctx.now()}).first()
        if row is None:
            raise Missing(f"trial {trial_id} not found")
        tx.execute(_REOPEN, {"id": trial_id})
        latest = tx.execute(_LATEST, {"id": trial_id}).first() if resume else None
    answer: dict[str, Any] = {"trialRunId": row.run_id, "stepsCompleted": 0}
    if latest is not None:
        answer |= {"latestCheckpoint": str(latest.uuid), "stepsCompleted": latest.steps_completed}
    return answer
