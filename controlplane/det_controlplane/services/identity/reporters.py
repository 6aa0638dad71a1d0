"""Accept reports for a managed trial, task or allocation only from its own task, its owner and administrators.

A search decides by reported metrics, a trial continues from its newest checkpoint, and an allocation that all-gathers
waits for its peers. A report of another user would therefore change the owner's work. This module checks people;
`task_rights` checks the tokens of tasks. Programs outside the cluster report for unmanaged trials. Several users may
share an unmanaged trial by an external id.
"""

from collections.abc import Iterable, Sequence

from det_controlplane.db.people import ownership
from det_controlplane.db.people.ownership import Owned
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Forbidden, Missing
from det_controlplane.services.principal import User


def require_trial(ctx: Context, user: User, trial_id: int) -> None:
    """Refuse users other than the trial's owner and administrators. The use case reports a missing trial."""
    if user.allocation_id is None:
        record = ctx.memory.owner_of(trial_id) or _read(ctx, [trial_id]).get(trial_id)
        _require(user, record, f"trial {trial_id}")


def require_tasks(ctx: Context, user: User, task_ids: Iterable[str]) -> None:
    """Refuse users other than administrators and the owners of the tasks, and tasks that do not exist."""
    if user.allocation_id is None:
        for task_id in task_ids:
            record = ownership.of_task(ctx.db, task_id)
            if record is None:
                raise Missing(f"task '{task_id}' not found")
            _require(user, record, f"task {task_id}")


def require_allocation(ctx: Context, user: User, allocation_id: str) -> None:
    """Refuse users other than the allocation's owner and administrators. The use case reports a missing allocation."""
    if user.allocation_id is None:
        record = ownership.of_allocation(ctx.db, allocation_id)
        _require(user, record, f"allocation {allocation_id}")


def read_owners(ctx: Context, trial_ids: Iterable[int]) -> None:
    """Cache the owners of trials with one statement, for requests that are answered together."""
    unknown = sorted({id for id in trial_ids if ctx.memory.owner_of(id) is None})
    if unknown:
        _read(ctx, unknown)


def _read(ctx: Context, trial_ids: Sequence[int]) -> dict[int, Owned]:
    owners = ownership.of_trials(ctx.db, trial_ids)
    ctx.memory.remember_owners(owners)
    return owners


def _require(user: User, record: Owned | None, what: str) -> None:
    if record is None or record.unmanaged or user.id == record.user_id:
        return
    if not (user.presides or user.admin):
        raise Forbidden(
            f"{what} of another user takes reports from its own tasks, its owner and administrators only;"
            f" you are signed in as {user.username}"
        )
