"""Keep commands, notebooks, shells, TensorBoards and generic tasks as long as the cluster says after their end."""

from datetime import timedelta

from det_controlplane.db.schema.enums import EffectKind
from det_controlplane.db.tasks import ended_tasks
from det_controlplane.services.context import Context
from det_controlplane.services.use_case import change

AT_ONCE = 100  # tasks a look
LINES_AT_ONCE = 50_000  # of their logs


def delete_some(ctx: Context) -> bool:
    """Delete some expired tasks with their logs and files. Return whether more may be expired."""
    days = ctx.config.retention_policy.task_retention_days
    if days <= 0:
        return False
    with change(ctx) as changed:
        ids = ended_tasks.past(changed.tx, changed.now - timedelta(days=days), AT_ONCE)
        if not ids:
            return False
        # A long log goes in parts, and its task with the last of them.
        if ended_tasks.delete_logs(changed.tx, ids, LINES_AT_ONCE) == LINES_AT_ONCE:
            return True
        for key in ended_tasks.delete(changed.tx, ids):
            changed.later(EffectKind.DELETE_OBJECT, key=key)
    return len(ids) == AT_ONCE
