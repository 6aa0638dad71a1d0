"""Check the token of a task against the rule of a route."""

from collections.abc import Mapping

from det_controlplane.core.people.permissions import Rule, TaskRule
from det_controlplane.db.people import ownership
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Forbidden
from det_controlplane.services.principal import User


def require(ctx: Context, user: User, row: Rule, params: Mapping[str, str]) -> None:
    """Refuse routes that the token of a task does not cover. Users pass."""
    if user.allocation_id is None:
        return
    if user.narrow:
        _require_own(user, row, params)
    rule = row.task
    if rule is TaskRule.NEVER:
        raise Forbidden("a task's token is not good for this: sign in")
    if rule is TaskRule.OWN_TRIAL:
        require_trial(ctx, user, _number(params, "trialId", "runId"))
    elif rule is TaskRule.OWN_EXPERIMENT and "trialId" in params:
        trial_id = _number(params, "trialId")
        _require_owner(user, ownership.of_trial(ctx.db, trial_id), f"trial {trial_id}")
    elif rule is TaskRule.OWN_EXPERIMENT:
        require_experiment(ctx, user, _number(params, "experimentId", "id"))
    elif rule is TaskRule.OWN_TASK:
        require_own_task(ctx, user, params["taskId"])


def require_trial(ctx: Context, user: User, trial_id: int) -> None:
    """Allow reports for the task's own trial, and for trials that its owner's code runs outside the cluster's care."""
    if user.allocation_id is None or trial_id == user.trial_id:
        return
    _require_unmanaged(user, ownership.of_trial(ctx.db, trial_id), f"trial {trial_id}")


def require_experiment(ctx: Context, user: User, experiment_id: int) -> None:
    if user.allocation_id is None or experiment_id == user.experiment_id:
        return
    experiment = ownership.of_experiment(ctx.db, experiment_id)
    _require_owner(user, experiment, f"experiment {experiment_id}")


def require_task(ctx: Context, user: User, task_id: str) -> None:
    """Allow reports for the task itself, and for unmanaged trials of its owner."""
    if user.allocation_id is None or task_id == user.task_id:
        return
    _require_unmanaged(user, ownership.of_task(ctx.db, task_id), f"task {task_id}")


def require_own_task(ctx: Context, user: User, task_id: str) -> None:
    """Allow a task to use tasks of its own user."""
    if user.allocation_id is not None:
        _require_owner(user, ownership.of_task(ctx.db, task_id), f"task {task_id}")


def _require_unmanaged(user: User, record: ownership.Owned | None, what: str) -> None:
    """Require existing objects to be unmanaged and owned by the caller."""
    if record is not None and not (record.unmanaged and record.user_id == user.id):
        raise Forbidden(f"the token of task {user.task_id} is not good for {what}")


def _require_owner(user: User, record: ownership.Owned | None, what: str) -> None:
    """Require the owner of an existing object. The service reports missing objects."""
    if record is not None and record.user_id != user.id:
        raise Forbidden(f"a task of user {user.username} may not change {what} of another user")


def _require_own(user: User, row: Rule, params: Mapping[str, str]) -> None:
    """Restrict a narrow token to routes for tasks, and to its own task in their paths.

    Checkpoints and names in bodies are checked by the caller's rights."""
    needs = [n for n in row.needs if n.place == "path" and n.kind != "checkpoint"]
    if not row.own or not all(is_own(user, n.kind, params[n.names[0]]) for n in needs):
        raise only_for_itself(user)


def is_own(user: User, kind: str, name: object) -> bool:
    """Return whether a task names itself."""
    own = {
        "trial": user.trial_id, "experiment": user.experiment_id, "task": user.task_id, "allocation": user.allocation_id,
    }  # fmt: skip
    return own.get(kind) is not None and str(name) == str(own[kind])


def only_for_itself(user: User) -> Forbidden:
    return Forbidden(
        f"the token of task {user.task_id} is only good for the task itself"
        " (environment.det_token of its configuration)"
    )


def _number(params: Mapping[str, str], *names: str) -> int:
    value = next((params[name] for name in names if name in params), "")
    return int(value) if value.isascii() and value.isdigit() and len(value) <= 9 else 0
