"""Let runs of trials start from replicas, which are states in the memory of agents that are newer than checkpoints."""

from collections.abc import Mapping, Sequence
from typing import Any

from det_controlplane.core.trials.metrics import steps_problem
from det_controlplane.db.scheduling import allocations
from det_controlplane.db.tasks import replicas
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, WrongState
from det_controlplane.services.principal import User
from det_controlplane.services.tasks.allocations import find

_MOST_GROUPS = 100
_MOST_AT_ONCE = 1000


def start_from(
    ctx: Context, user: User, allocation_id: str, steps: int, reported: Mapping[str, Any]
) -> str:
    """Move the start of a run to the step of its replica. Return why the run must not start from it, or ''.

    `reported` has the last step of each metric group that the trial had reported. If such a report is lost with its
    machine, the trial has to repeat it."""
    find(ctx, user, allocation_id)
    problem = steps_problem(steps)
    for group, last in reported.items():
        problem = problem or (
            steps_problem(last) if type(last) is int else f"reported.{group} must be an integer"
        )
    if problem is not None or len(reported) > _MOST_GROUPS:
        raise Invalid(problem or f"reported must have at most {_MOST_GROUPS} groups")
    with ctx.db.begin() as tx:
        allocations.lock(tx, allocation_id)
        lost = replicas.lost_report(tx, allocation_id, reported)
        if lost is not None:
            return f"the {lost.group} metrics of step {lost.steps} were lost with their machine"
        if not replicas.start_from(tx, allocation_id, steps):
            raise WrongState(
                f"allocation '{allocation_id}' is no running trial that starts before step {steps}"
            )
    return ""


def unneeded(ctx: Context, agent_id: str, task_ids: Sequence[str]) -> tuple[str, ...]:
    """Return the tasks with replicas on an agent that it may delete."""
    return tuple(replicas.unneeded(ctx.db, agent_id, task_ids[:_MOST_AT_ONCE]))
