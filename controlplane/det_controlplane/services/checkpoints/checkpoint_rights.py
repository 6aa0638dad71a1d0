"""Check the right to report, change or delete a checkpoint."""

from collections.abc import Sequence
from uuid import UUID

from det_controlplane.db.people import ownership
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Forbidden
from det_controlplane.services.identity.rights import require_owner
from det_controlplane.services.principal import User


def require_deletion(ctx: Context, user: User, uuids: Sequence[UUID]) -> None:
    """Allow deletions to the owner of the experiment, and to administrators."""
    for user_id, uuid in ownership.checkpoints_by_owner(ctx.db, uuids).items():
        require_owner(user, user_id, f"delete checkpoint {uuid}")


def require_change(ctx: Context, user: User, uuid: UUID) -> None:
    """Require that a task changes only checkpoints of its owner."""
    checkpoint = ownership.of_checkpoint(ctx.db, uuid)
    if user.allocation_id is not None and checkpoint is not None:
        require_owner(user, checkpoint.user_id, f"change checkpoint {uuid}")


def require_report(ctx: Context, user: User, uuid: UUID) -> None:
    """Require the right to report which files of a checkpoint remain. A checkpoint without files counts as deleted.

    Users need the right to delete it. A task needs to be of its experiment, or to collect files of the owner's deleted experiments."""
    if user.allocation_id is None:
        require_deletion(ctx, user, [uuid])
        return
    checkpoint = ownership.of_checkpoint(ctx.db, uuid)
    if checkpoint is None or checkpoint.experiment_id == user.experiment_id:
        return
    if user.task_id and ownership.is_collected_by(ctx.db, uuid, user.task_id):
        return
    if not (checkpoint.unmanaged and checkpoint.user_id == user.id):
        raise Forbidden(f"the token of task {user.task_id} is not good for checkpoint {uuid}")
