"""List and pause the running experiments of a deactivated user."""

from det_controlplane.core.lifecycle.experiment import Command
from det_controlplane.db.experiments import experiments
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Missing, WrongState
from det_controlplane.services.experiments import actions
from det_controlplane.services.identity.rights import require_admin
from det_controlplane.services.principal import User


def running(ctx: Context, user_id: int) -> list[int]:
    """Return the experiments that run or wait to, in the order of their numbers."""
    return experiments.active_of(ctx.db, user_id)


def pause(ctx: Context, caller: User, user_id: int) -> list[int]:
    """Pause a user's experiments, which save checkpoints and release their slots. Return the paused experiments."""
    require_admin(caller, "pause all the work of a user")
    paused = []
    for experiment_id in running(ctx, user_id):
        try:
            actions.command(ctx, experiment_id, Command.PAUSE)
        except (Missing, WrongState):
            continue  # it ended in between, or its own process runs it
        paused.append(experiment_id)
    return paused
