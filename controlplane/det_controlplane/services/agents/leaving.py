"""A machine goes away: a spot notice, maintenance, a shutdown. What runs there checkpoints and moves."""

from det_controlplane.core.lifecycle.trial import Signal
from det_controlplane.db import allocations, containers
from det_controlplane.services.context import Context
from det_controlplane.services.effects import Effects
from det_controlplane.services.scheduling import placement


def stop_all(ctx: Context, agent_id: str) -> bool:
    """Ask every allocation on the agent that was not asked yet to checkpoint and stop; whether there was any."""
    effects, now = Effects(ctx), ctx.now()
    with ctx.db.begin() as tx:
        found = containers.allocations_to_ask(tx, agent_id)
        for allocation_id in found:
            allocation = allocations.lock(tx, allocation_id)
            if allocation is not None:
                reason = f"the machine of agent {agent_id} goes away"
                placement.stop(tx, effects, allocation, Signal.TERMINATE, reason, now)
        effects.write(tx, now)
    effects.announce()
    return bool(found)
