"""Apply one action to many runs: each succeeds or says why not. A run is a trial, and often all of its experiment."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from det_controlplane.core.filters import Filter
from det_controlplane.core.lifecycle.experiment import Command
from det_controlplane.core.problems import InvalidConfig
from det_controlplane.db.experiments import table_pages
from det_controlplane.db.experiments.table_pages import RunRow, TableScope
from det_controlplane.db.trials import trials
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Missing, Refused, WrongState
from det_controlplane.services.experiments import actions, deletion, editing
from det_controlplane.services.principal import User

Action = Callable[[Context, User, RunRow], None]


@dataclass(frozen=True, slots=True)
class Selection:
    """Runs by id, or all of a place that a filter leaves."""

    ids: Sequence[int]
    filter: Filter
    place: TableScope


def apply(ctx: Context, caller: User, selection: Selection, action: Action) -> list[dict[str, Any]]:
    results = []
    for run_id in _read_selected_ids(ctx, selection):
        try:
            action(ctx, caller, _run(ctx, run_id))
            results.append({"id": run_id, "error": ""})
        except (Refused, InvalidConfig) as e:
            results.append({"id": run_id, "error": str(e)})
    return results


def _read_selected_ids(ctx: Context, selection: Selection) -> list[int]:
    """Return the given ids, including ids of missing runs."""
    if selection.ids:
        return list(dict.fromkeys(selection.ids))
    with ctx.db.autocommit() as tx:
        return table_pages.run_ids(tx, selection.place, selection.filter)


def _run(ctx: Context, run_id: int) -> RunRow:
    with ctx.db.autocommit() as tx:
        row = table_pages.run(tx, run_id)
    if row is None:
        raise Missing(f"run {run_id} not found")
    return row


def kill(ctx: Context, _: User, run: RunRow) -> None:
    actions.kill_trial(ctx, run.id)


def commanding(command: Command) -> Action:
    """Pause or resume a run. This is possible only for the single run of an experiment, because a search controls
    several runs."""

    def act(ctx: Context, _: User, run: RunRow) -> None:
        _require_alone(run, f"'det experiment {command.value} {run.experiment_id}'")
        actions.command(ctx, run.experiment_id, command)

    return act


def archiving(archived: bool) -> Action:
    def act(ctx: Context, _: User, run: RunRow) -> None:
        if not run.state.terminal:
            raise WrongState(f"run {run.id} is {run.state.value}: only ended ones can be archived")
        with ctx.db.begin() as tx:
            trials.update(tx, run.id, archived=archived)

    return act


def moving_to(project_id: int, skip_searches: bool) -> Action:
    """Move a run with its experiment, and so with all runs of its search unless those are skipped."""

    def act(ctx: Context, caller: User, run: RunRow) -> None:
        if skip_searches and not run.is_alone:
            raise WrongState(f"run {run.id} is skipped: it is part of a search with other runs")
        editing.move(ctx, caller, run.experiment_id, project_id)

    return act


def delete(ctx: Context, caller: User, run: RunRow) -> None:
    """Delete a run with its experiment; one of several stays, because its search was decided with it."""
    _require_alone(run, f"'det experiment delete {run.experiment_id}' deletes them all")
    deletion.delete(ctx, caller, run.experiment_id)


def _require_alone(run: RunRow, instead: str) -> None:
    if not run.is_alone:
        raise WrongState(
            f"run {run.id} is one of several of experiment {run.experiment_id}: {instead}"
        )
