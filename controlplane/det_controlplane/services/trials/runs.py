"""What a running trial tells besides metrics and checkpoints."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import text

from det_controlplane.core import search
from det_controlplane.db import trials
from det_controlplane.db.engine import as_json
from det_controlplane.services.checkpoints.records import parse_uuid
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, Missing
from det_controlplane.services.experiments.actions import opened_trial

# A program that decides from outside hears of whole percents.
_PROGRESS = text("""
    UPDATE trials t SET progress = :progress FROM trials old WHERE t.id = :id AND t.ended_at IS NULL AND old.id = t.id
    RETURNING t.train_to IS NOT NULL
        AND floor(t.progress * 100) IS DISTINCT FROM floor(old.progress * 100) AS moved,
        CASE WHEN t.train_to IS NOT NULL THEN
            (SELECT e.config#>>'{searcher,name}' FROM experiments e WHERE e.id = t.experiment_id) END AS searcher
""")
_RUNNER_STATE = text("UPDATE trials SET runner_state = :state WHERE id = :id")
_METADATA = text("SELECT id, metadata FROM trials WHERE id = :id")
_SET_METADATA = text(
    "UPDATE trials SET metadata = cast(:metadata AS jsonb) WHERE id = :id RETURNING id"
)
_SOURCE = text("""
    INSERT INTO trial_sources (trial_id, checkpoint_uuid, model_id, model_version, kind)
    VALUES (:trial_id, :uuid, :model_id, :model_version, :kind)
    ON CONFLICT (trial_id, checkpoint_uuid) DO UPDATE SET model_id = excluded.model_id,
        model_version = excluded.model_version, kind = excluded.kind
""")
_TRAIN_TO = text("SELECT train_to FROM trials WHERE id = :id")
_OPERATION = text("""
    SELECT t.train_to, t.op_completed, t.stop_requested, t.parked, t.ended_at, t.state::text AS state,
           e.config->'searcher' AS searcher,
           CASE WHEN t.parked THEN EXISTS (SELECT 1 FROM allocations q JOIN jobs j ON j.pool = q.pool
                WHERE j.id = e.job_id AND q.state = 'QUEUED') END AS slots_wanted
    FROM trials t JOIN experiments e ON e.id = t.experiment_id WHERE t.id = :id
""")


def report_progress(ctx: Context, trial_id: int, progress: float) -> None:
    """A fraction of the trial's work; the experiment's progress follows with the next validation."""
    if not 0 <= progress <= 1:
        raise Invalid(f"trial {trial_id}: progress must be between 0 and 1, not {progress}")
    with ctx.db.begin() as tx:
        row = tx.execute(_PROGRESS, {"id": trial_id, "progress": progress}).first()
        if row is None:
            _must_exist(tx.execute(_METADATA, {"id": trial_id}).first(), trial_id)
            return
    if row.moved and row.searcher == "custom":
        _tell_progress(ctx, trial_id, progress)


def _tell_progress(ctx: Context, trial_id: int, progress: float) -> None:
    with opened_trial(ctx, trial_id) as (experiment, trial):
        if not trial.state.terminal:
            experiment.feed(search.Progressed(str(trial.request_id), progress))


def set_runner_state(ctx: Context, trial_id: int, state: str) -> None:
    with ctx.db.begin() as tx:
        if not tx.execute(_RUNNER_STATE, {"id": trial_id, "state": state}).rowcount:
            raise Missing(f"trial {trial_id} not found")


def metadata(ctx: Context, trial_id: int) -> dict[str, Any] | None:
    with ctx.db.begin() as tx:
        row = _must_exist(tx.execute(_METADATA, {"id": trial_id}).first(), trial_id)
    found: dict[str, Any] | None = row.metadata
    return found


def set_metadata(ctx: Context, trial_id: int, values: dict[str, Any]) -> dict[str, Any]:
    with ctx.db.begin() as tx:
        _must_exist(
            tx.execute(_SET_METADATA, {"id": trial_id, "metadata": as_json(values)}).first(),
            trial_id,
        )
    return values


def report_source(
    ctx: Context,
    trial_id: int,
    checkpoint_uuid: str,
    model_id: int | None,
    model_version: int | None,
    kind: str,
) -> None:
    """Which checkpoint or model version a trial worked with."""
    params = {
        "trial_id": trial_id, "uuid": parse_uuid(checkpoint_uuid), "model_id": model_id,
        "model_version": model_version, "kind": kind,
    }  # fmt: skip
    with ctx.db.begin() as tx:
        tx.execute(_SOURCE, params)


@dataclass(frozen=True, slots=True)
class Operation:
    """How far a trial should train. `undecided`: a program outside is about to say how it goes on."""

    length: int
    completed: bool
    undecided: bool


def searcher_operation(ctx: Context, trial_id: int, *, may_wait: bool) -> Operation:
    """What harnesses up to 0.37 ask: how far to train. In the stopping form that is the whole length."""
    with ctx.db.begin() as tx:
        row = _must_exist(tx.execute(_OPERATION, {"id": trial_id}).first(), trial_id)
        undecided = _is_undecided(row) and may_wait
        if row.parked and not undecided and not trials.let_rest(tx, trial_id):
            # It was asked to go on at this very moment.
            row = _must_exist(tx.execute(_OPERATION, {"id": trial_id}).first(), trial_id)
    length = row.train_to
    if length is None:
        length = search.length_of(row.searcher.get("max_length"))
    if length is None:
        raise Missing(f"trial {trial_id}: its searcher sets no length; the training code decides")
    done = bool(row.op_completed or row.stop_requested or row.parked or row.ended_at is not None)
    return Operation(int(length), done, undecided)


def _is_undecided(row: Any) -> bool:
    """Worth keeping the container for: an answer is likely, and nobody else waits for its slots."""
    waits = row.parked and row.state == "ACTIVE" and not row.stop_requested
    return bool(waits and not row.slots_wanted and row.searcher.get("name") == "custom")


def complete_operation(ctx: Context, trial_id: int, length: float, metric: Any) -> None:
    with opened_trial(ctx, trial_id) as (experiment, trial):
        train_to = experiment.tx.execute(_TRAIN_TO, {"id": trial.id}).scalar()
        if trial.state.terminal or train_to not in (None, length):
            return  # A repetition: the trial has another operation by now.
        trials.update(experiment.tx, trial.id, op_completed=True)
        event = search.OperationCompleted(str(trial.request_id), float(length), metric)
        experiment.feed(event)


def _must_exist(row: Any, trial_id: int) -> Any:
    if row is None:
        raise Missing(f"trial {trial_id} not found")
    return row
