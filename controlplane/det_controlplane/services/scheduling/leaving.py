"""Act on the notice that a machine goes away (spot, maintenance, shutdown): its work checkpoints and moves."""

from datetime import datetime, timezone

from det_controlplane.core.lifecycle.allocation import AllocationState, Signal
from det_controlplane.db.scheduling import allocations
from det_controlplane.db.tasks import containers
from det_controlplane.services.context import Context
from det_controlplane.services.scheduling import stopping
from det_controlplane.services.use_case import change


def stop_all(ctx: Context, agent_id: str, until: datetime | None = None, why: str = "") -> bool:
    """Ask every running allocation on the agent to save a checkpoint and stop. Return whether there was any.

    Their deadline is `until` at the latest, also for allocations that were asked before. Allocations that cannot
    save a checkpoint end with their machine: a lost notebook starts again elsewhere, a killed one does not."""
    with ctx.db.autocommit() as tx:
        allocation_ids = containers.allocations_to_ask(tx, agent_id, until)
    at = "" if until is None else f" at {until.astimezone(timezone.utc):%H:%M:%S} UTC"
    reason = f"the machine of agent {agent_id} goes away{at}" + (f": {why}" if why else "")
    for allocation_id in allocation_ids:
        with change(ctx) as changed:
            allocation = allocations.lock(changed.tx, allocation_id)
            if allocation is None or allocation.state is AllocationState.TERMINATED:
                continue
            if allocation.preempt_at is None:
                stopping.stop(changed, [allocation], Signal.TERMINATE, reason)
            if until is not None:
                allocations.kill_by(changed.tx, allocation_id, until, reason)
                changed.wake("schedule")
    return bool(allocation_ids)
