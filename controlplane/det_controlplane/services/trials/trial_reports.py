"""Store reports of running trials other than metrics and checkpoints: progress, early exits, source, metadata."""

from dataclasses import dataclass
from typing import Any, TypeVar

from det_controlplane.core import documents, search
from det_controlplane.core.search import ExitReason
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.engine.errors import Violated
from det_controlplane.db.trials import trial_reports, trials
from det_controlplane.db.trials.trial_reports import TrialOrders
from det_controlplane.services.checkpoints.records import parse_uuid
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, Missing
from det_controlplane.services.experiments import actions
from det_controlplane.services.experiments.actions import locked_trial
from det_controlplane.services.principal import User

T = TypeVar("T")
_LONGEST_STATE = 500  # characters; listings show it with each trial


def report_progress(ctx: Context, user: User, trial_id: int, progress: float) -> None:
    """Store a fraction of the trial's work; the experiment's progress follows with the next validation."""
    if not 0 <= progress <= 1:
        raise Invalid(f"trial {trial_id}: progress must be between 0 and 1, not {progress}")
    with ctx.db.begin() as tx:
        if is_of_replaced_run(tx, user):
            return
        outcome = trial_reports.set_progress(tx, trial_id, progress)
        if outcome is None:
            _require_trial(trial_reports.metadata(tx, trial_id), trial_id)
            return
    if outcome.moved and outcome.searcher == "custom":
        _feed_progress(ctx, trial_id, progress)


def is_of_replaced_run(tx: Tx, user: User) -> bool:
    """Return whether a later run of the task's trial has begun."""
    allocation_id = user.allocation_id
    return allocation_id is not None and trial_reports.has_later_run(tx, allocation_id)


def report_early_exit(ctx: Context, user: User, trial_id: int, reason: ExitReason) -> None:
    """End the trial early for the reason that its code reports; ignore reports of earlier runs."""
    with ctx.db.autocommit() as tx:
        if is_of_replaced_run(tx, user):
            return
    actions.report_early_exit(ctx, trial_id, reason)


def _feed_progress(ctx: Context, trial_id: int, progress: float) -> None:
    with locked_trial(ctx, trial_id) as (experiment, trial):
        if not trial.state.terminal:
            experiment.feed(search.Progressed(str(trial.request_id), progress))


def set_runner_state(ctx: Context, trial_id: int, state: str) -> None:
    """Store the state text of a trial; shorten a long text, because an error would end the training."""
    if len(state) > _LONGEST_STATE:
        state = f"{state[:_LONGEST_STATE]}…"
    with ctx.db.begin() as tx:
        if not trials.update(tx, trial_id, runner_state=state):
            raise Missing(f"trial {trial_id} not found")


def metadata(ctx: Context, trial_id: int) -> dict[str, Any] | None:
    with ctx.db.autocommit() as tx:
        return _require_trial(trial_reports.metadata(tx, trial_id), trial_id).values


def set_metadata(ctx: Context, trial_id: int, values: dict[str, Any]) -> dict[str, Any]:
    fault = documents.fault_of(values)
    if fault is not None:
        raise Invalid(f"metadata of run {trial_id} {fault}")
    with ctx.db.begin() as tx:
        if not trials.update(tx, trial_id, metadata=values):
            raise Missing(f"trial {trial_id} not found")
    return values


def report_source(
    ctx: Context,
    trial_id: int,
    checkpoint_uuid: str,
    model_id: int | None,
    model_version: int | None,
    kind: str,
) -> None:
    """Store which checkpoint or model version a trial worked with."""
    uuid = parse_uuid(checkpoint_uuid)
    try:
        with ctx.db.begin() as tx:
            trial_reports.add_source(tx, trial_id, uuid, model_id, model_version, kind)
    except Violated as e:
        raise Missing(f"trial {trial_id} not found, or the checkpoint is not") from e


@dataclass(frozen=True, slots=True)
class Operation:
    """The length that a trial should train to. `undecided` means that an external program has yet to decide."""

    length: int
    completed: bool
    undecided: bool


def searcher_operation(ctx: Context, trial_id: int, *, may_wait: bool) -> Operation:
    """Return the length to train to, which harnesses up to 0.37 ask for. In the stopping form that is the whole length."""
    with ctx.db.begin() as tx:
        orders = _require_trial(trial_reports.asked(tx, trial_id), trial_id)
        undecided = _is_undecided(orders) and may_wait
        if orders.parked and not undecided and not trials.end_parked_run(tx, trial_id):
            # The trial was promoted at this very moment.
            orders = _require_trial(trial_reports.asked(tx, trial_id), trial_id)
    length = orders.train_to
    if length is None:
        length = search.length_of(orders.searcher.get("max_length"))
    if length is None:
        raise Missing(f"trial {trial_id}: its searcher sets no length; the training code decides")
    done = orders.op_completed or orders.stop_requested or orders.parked or orders.ended
    return Operation(int(length), done, undecided)


def _is_undecided(orders: TrialOrders) -> bool:
    """Return whether to keep the container: a decision is likely, and no other job waits for its slots."""
    waits = orders.parked and orders.state == "ACTIVE" and not orders.stop_requested
    return waits and not orders.slots_wanted and orders.searcher.get("name") == "custom"


def complete_operation(ctx: Context, trial_id: int, length: float, metric: Any) -> None:
    with locked_trial(ctx, trial_id) as (experiment, trial):
        train_to = trial_reports.train_to(experiment.tx, trial.id)
        if trial.state.terminal or train_to not in (None, length):
            return  # A repetition: the trial has another operation by now.
        trials.update(experiment.tx, trial.id, op_completed=True)
        event = search.OperationCompleted(str(trial.request_id), float(length), metric)
        experiment.feed(event)


def _require_trial(value: T | None, trial_id: int) -> T:
    if value is None:
        raise Missing(f"trial {trial_id} not found")
    return value
