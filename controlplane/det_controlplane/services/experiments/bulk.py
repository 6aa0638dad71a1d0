"""Apply one action to many experiments of a project: each succeeds or says why not."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from det_controlplane.core.lifecycle.experiment import Command
from det_controlplane.core.problems import InvalidConfig
from det_controlplane.db.experiments import experiment_pages
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Refused
from det_controlplane.services.experiments import actions, deletion, editing
from det_controlplane.services.logs import retention
from det_controlplane.services.principal import User

Action = Callable[[Context, User, int], None]


@dataclass(frozen=True, slots=True)
class Selection:
    """Experiments by id, or all that the filters leave."""

    ids: Sequence[int]
    filters: dict[str, Any]


def apply(
    ctx: Context, caller: User, project_id: int | None, selection: Selection, action: Action
) -> list[dict[str, Any]]:
    """Apply the action to experiments of a project; None stands for all projects."""
    results = []
    for experiment_id in _read_selected_ids(ctx, project_id, selection):
        try:
            action(ctx, caller, experiment_id)
            results.append({"id": experiment_id, "error": ""})
        except (Refused, InvalidConfig) as e:
            results.append({"id": experiment_id, "error": str(e)})
    return results


def _read_selected_ids(ctx: Context, project_id: int | None, selection: Selection) -> list[int]:
    """Return the given ids, including ids of missing experiments."""
    if selection.ids:
        return list(dict.fromkeys(selection.ids))
    filters = selection.filters
    if project_id is not None:
        filters = {**filters, "project_id": project_id}  # the rights were checked for this project
    with ctx.db.autocommit() as tx:
        return experiment_pages.ids(tx, filters)


def commanding(command: Command) -> Action:
    return lambda ctx, _, experiment_id: actions.command(ctx, experiment_id, command)


def archiving(archived: bool) -> Action:
    return lambda ctx, _, experiment_id: editing.set_archived(ctx, experiment_id, archived)


def moving_to(project_id: int) -> Action:
    return lambda ctx, caller, experiment_id: editing.move(ctx, caller, experiment_id, project_id)


def retaining(days: int) -> Action:
    return lambda ctx, caller, experiment_id: retention.set_of_experiment(
        ctx, caller, experiment_id, days
    )


def deleting(ctx: Context, caller: User, experiment_id: int) -> None:
    deletion.delete(ctx, caller, experiment_id)
