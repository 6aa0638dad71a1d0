"""A machine goes away: a spot notice, maintenance, a shutdown. What runs there checkpoints and moves."""

from det_controlplane.core.lifecycle.allocation import AllocationState
from det_controlplane.core.lifecycle.trial import Signal
from det_controlplane.db import allocations, containers
from det_controlplane.services.context import Context
from det_controlplane.services.scheduling import stopping
from det_controlplane.services.use_case import change


def stop_all(ctx: Context, agent_id: str) -> bool:
    """Ask every allocation on the agent that was not asked yet to checkpoint and stop; whether there was any."""
    with ctx.db.autocommit() as tx:
        found = containers.allocations_to_ask(tx, agent_id)
    for allocation_id in found:
        with change(ctx) as changed:
            allocation = allocations.lock(changed.tx, allocation_id)
            if allocation is not None and allocation.state is not AllocationState.TERMINATED:
                reason = f"the machine of agent {agent_id} goes away"
                stopping.stop(changed, allocation, Signal.TERMINATE, reason)
    return bool(found)
