"""Actions on existing experiments: pause, activate, cancel, kill, ends of trials, and a pause of all work of a user."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from det_controlplane.core import search
from det_controlplane.core.lifecycle import experiment as states
from det_controlplane.core.lifecycle.experiment import Command
from det_controlplane.core.lifecycle.trial import TrialState
from det_controlplane.core.search import ExitReason
from det_controlplane.db.experiments import experiments
from det_controlplane.db.trials import trials
from det_controlplane.db.trials.trials import TrialRow
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Missing, WrongState
from det_controlplane.services.experiments import live
from det_controlplane.services.experiments.live import LiveExperiment
from det_controlplane.services.identity.rights import require_admin
from det_controlplane.services.memory import KeptSearch
from det_controlplane.services.money import spent_budgets
from det_controlplane.services.principal import User
from det_controlplane.services.search.journal import parse_space


def command(ctx: Context, experiment_id: int, command: Command) -> None:
    """Activate, pause, cancel or kill."""
    with live.locked_experiment(ctx, experiment_id) as experiment:
        carry_out(experiment, command)


def carry_out(experiment: LiveExperiment, command: Command) -> None:
    """Apply a command to a locked experiment."""
    row = experiment.row
    if row.unmanaged and command is Command.ACTIVATE:
        raise WrongState(f"experiment {row.id} is unmanaged: its own process runs it")
    try:
        target = states.after_command(row.state, command)
    except states.NotAllowed as e:
        raise WrongState(f"experiment {row.id}: {e}") from e
    if command is Command.ACTIVATE:
        spent_budgets.require(experiment.ctx, experiment.tx, row.id)
    experiment.set_state(target)


def start_search(experiment: LiveExperiment, config: Mapping[str, Any]) -> None:
    """Start a search: its first decisions follow from the configuration that was just stored."""
    row = experiment.row
    new = search.new(config["searcher"], parse_space(config), row.seed)
    experiment.ctx.memory.store_search(row.id, KeptSearch(row.seq, new))
    experiment.journal.begins = True
    experiment.feed(search.Started())


def kill_trial(ctx: Context, trial_id: int) -> None:
    with locked_trial(ctx, trial_id) as (experiment, trial):
        experiment.patch_trials([trial], TrialState.STOPPING_KILLED)


def report_early_exit(ctx: Context, trial_id: int, reason: ExitReason) -> None:
    """Report an early exit to the searcher. After invalid hyperparameters, kill a program that does not end soon."""
    with locked_trial(ctx, trial_id) as (experiment, trial):
        if trial.early_exit is not None or trial.state.terminal:
            return
        trials.update(experiment.tx, trial.id, early_exit=reason.value)
        trial.early_exit = reason.value
        experiment.remember(trial)
        experiment.feed(search.ExitedEarly(str(trial.request_id), reason))
        experiment.end_early(trial, reason)


@contextmanager
def locked_trial(ctx: Context, trial_id: int) -> Iterator[tuple[LiveExperiment, TrialRow]]:
    """Lock the experiment of a trial, as `live.locked_experiment` does, and read the trial."""
    with ctx.db.begin() as tx:
        row = trials.by_id(tx, trial_id)
    if row is None:
        raise Missing(f"trial {trial_id} not found")
    with live.locked_experiment(ctx, row.experiment_id) as experiment:
        trial = trials.by_id(experiment.tx, trial_id)
        assert trial is not None
        yield experiment, trial


def running_of_user(ctx: Context, user_id: int) -> list[int]:
    """Return the experiments that run or wait to, in the order of their numbers."""
    return experiments.active_of(ctx.db, user_id)


def pause_all_of_user(ctx: Context, caller: User, user_id: int) -> list[int]:
    """Pause a user's experiments, which save checkpoints and release their slots. Return the paused experiments."""
    require_admin(caller, "pause all the work of a user")
    paused = []
    for experiment_id in running_of_user(ctx, user_id):
        try:
            command(ctx, experiment_id, Command.PAUSE)
        except (Missing, WrongState):
            continue  # it ended in between, or its own process runs it
        paused.append(experiment_id)
    return paused
