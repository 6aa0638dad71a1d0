"""List, pause and end the tasks of a deactivated user. services/experiments/actions.py does the same for
experiments.
"""

from collections.abc import Callable, Iterable
from typing import Any

from det_controlplane.core.lifecycle.task import NAMES, TaskKind
from det_controlplane.db.tasks import tasks
from det_controlplane.db.tasks.tasks import LiveTask
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Missing, WrongState
from det_controlplane.services.identity.rights import require_admin
from det_controlplane.services.interactive.interactive import kill
from det_controlplane.services.principal import User
from det_controlplane.services.tasks import generic


def running(ctx: Context, user_id: int) -> list[dict[str, Any]]:
    """Return the tasks that run or wait to, oldest first: their id, kind and name."""
    return _entries(tasks.live_of(ctx.db, user_id))


def stop(
    ctx: Context, caller: User, user_id: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Pause a user's tasks that can be paused and end the others; return both."""
    require_admin(caller, "stop all the work of a user")
    paused, ended = [], []
    for task in tasks.live_of(ctx.db, user_id):
        if task.kind is not TaskKind.GENERIC:
            ended += _change_task(task, lambda t: kill(ctx, caller, t.kind, t.id))
        elif task.no_pause:
            ended += _change_task(task, lambda t: generic.kill(ctx, caller, t.id, from_root=False))
        else:
            paused += _change_task(task, lambda t: generic.pause(ctx, caller, t.id))
    return _entries(paused), _entries(ended)


def _change_task(task: LiveTask, action: Callable[[LiveTask], object]) -> list[LiveTask]:
    """Pause or end a task. Return it, or None if it ended meanwhile."""
    try:
        action(task)
    except (Missing, WrongState):
        return []
    return [task]


def _entries(live_tasks: Iterable[LiveTask]) -> list[dict[str, Any]]:
    return [
        {"taskId": t.id, "kind": NAMES.get(t.kind, t.kind.value.lower()), "name": t.name}
        for t in live_tasks
    ]
