"""Unmanaged trials run elsewhere and only report; one that falls silent has failed."""

from datetime import datetime, timedelta
from typing import Any

from det_controlplane.core import documents
from det_controlplane.core.lifecycle.trial import TrialState
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.engine.errors import TryAgain, Violated
from det_controlplane.db.trials import trials
from det_controlplane.db.trials import unmanaged as rows
from det_controlplane.db.trials.trials import NewTrial
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, Missing, WrongState
from det_controlplane.services.use_case import Change, change

SILENCE = timedelta(minutes=5)
_ONCE = "trial_external_id"

# How far a managed trial has come, as it is shown: of one that runs elsewhere each means that it lives.
_STAGES = ("QUEUED", "PULLING", "STARTING", "RUNNING")


def heartbeat(ctx: Context, trial_id: int, state: str | None) -> None:
    """Note that an unmanaged trial is still there, or ended (`PATCH /trials/{id}`)."""
    reported = _parse_state(trial_id, state)
    with change(ctx) as ch:
        if reported.terminal:
            _check(trial_id, rows.lock_experiment(ch.tx, trial_id))
            _end(ch, trial_id, reported)
        else:
            _check(trial_id, rows.is_unmanaged(ch.tx, trial_id))
            rows.heartbeat(ch.tx, trial_id, ch.now)


def _end(ch: Change, trial_id: int, state: TrialState) -> None:
    experiment_id = rows.end(ch.tx, trial_id, state, ch.now)
    if experiment_id is not None:
        ch.send_final_state(experiment_id)


def _parse_state(trial_id: int, state: str | None) -> TrialState:
    if state is None or state in _STAGES:
        return TrialState.ACTIVE
    try:
        return TrialState(state)
    except ValueError as e:
        names = ", ".join([*TrialState.__members__, *_STAGES])
        raise Invalid(f"trial {trial_id}: state must be one of {names}, not {state!r}") from e


def _check(trial_id: int, unmanaged: bool | None) -> None:
    if unmanaged is None:
        raise Missing(f"trial {trial_id} not found")
    if not unmanaged:
        raise WrongState(f"trial {trial_id} is managed: the cluster knows its state")


def end_silent_trials(ctx: Context) -> None:
    before = ctx.now() - SILENCE
    with ctx.db.autocommit() as tx:
        silent = rows.silent_since(tx, before)
    # One transaction for each trial, so that none waits for an experiment while it holds another.
    for trial_id in silent:
        with change(ctx) as ch:
            rows.lock_experiment(ch.tx, trial_id)
            if rows.is_silent(ch.tx, trial_id, before):
                _end(ch, trial_id, TrialState.ERROR)


def next_due(tx: Tx) -> datetime | None:
    oldest = rows.longest_silent(tx)
    return None if oldest is None else oldest + SILENCE


def create_trial(
    ctx: Context, experiment_id: int, hparams: dict[str, Any], external_id: str | None
) -> int:
    """Create a trial that runs elsewhere. The same external id always is the same trial."""
    fault = documents.fault_of(hparams)
    if fault is not None:
        raise Invalid(f"hparams {fault}")
    now, request_id = ctx.now(), ctx.random.uuid()
    with ctx.db.begin() as tx:
        experiment = rows.parent(tx, experiment_id)
        if experiment is None:
            raise Missing(f"experiment {experiment_id} not found")
        if not experiment.unmanaged:
            raise WrongState(
                f"experiment {experiment_id} is managed: its searcher creates the trials"
            )
        if external_id is not None:
            existing_id = rows.by_external_id(tx, experiment_id, external_id)
            if existing_id is not None:
                return existing_id
        new = NewTrial(
            experiment_id=experiment_id, request_id=request_id, state=TrialState.ACTIVE, hparams=hparams,
            seed=ctx.random.seed(), task_id=f"{experiment_id}.{request_id}", warm_start_uuid=None,
            job_id=experiment.job_id, context_id=None,
        )  # fmt: skip
        trial_id = trials.insert(tx, new, now)
        _name(tx, trial_id, external_id, now)
        # Its program lives: should it die before it reports, both show ERROR after the silence, never PAUSED.
        rows.reopen(tx, trial_id)
    return trial_id


def _name(tx: Tx, trial_id: int, external_id: str | None, now: datetime) -> None:
    try:
        trials.update(tx, trial_id, external_id=external_id, heartbeat_at=now)
    except Violated as e:
        if e.constraint == _ONCE:
            raise TryAgain(f"another request made this trial just now: {e}") from e
        raise


def start_trial(ctx: Context, trial_id: int, resume: bool) -> dict[str, Any]:
    """Begin a new run of the trial. With `resume` it continues from the latest checkpoint."""
    with ctx.db.begin() as tx:
        _check(trial_id, rows.lock_experiment(tx, trial_id))
        run = rows.start(tx, trial_id, resume, ctx.now())
    answer: dict[str, Any] = {"trialRunId": run.run_id, "stepsCompleted": run.steps_completed}
    if run.checkpoint is not None:
        answer["latestCheckpoint"] = str(run.checkpoint)
    return answer
