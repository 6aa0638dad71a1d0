"""Verify the numbers of trials and checkpoints that lists show, and repair wrong ones."""

from det_controlplane.db.experiments import counts
from det_controlplane.db.experiments.counts import Difference as Difference
from det_controlplane.services.context import Context
from det_controlplane.services.identity.rights import require_admin
from det_controlplane.services.principal import User


def differences(ctx: Context, caller: User) -> list[Difference]:
    require_admin(caller, "verify counts")
    return counts.differences(ctx.db)


def repair(ctx: Context, caller: User) -> list[Difference]:
    """Repair the wrong numbers; return them as they were before."""
    require_admin(caller, "repair counts")
    wrong = counts.differences(ctx.db)
    ids = [difference.experiment_id for difference in wrong]
    for start in range(0, len(ids), counts.PART):
        with ctx.db.begin() as tx:
            counts.repair(tx, ids[start : start + counts.PART])
    return wrong
