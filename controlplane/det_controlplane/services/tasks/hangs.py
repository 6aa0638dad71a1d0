"""End runs without progress. Containers report the progress of their ranks if the trial has a hang_timeout."""

from datetime import timedelta

from det_controlplane.core.lifecycle.trial import MAX_UNCHARGED_HANGS
from det_controlplane.db.logs import logs
from det_controlplane.db.scheduling import allocations
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, WrongState
from det_controlplane.services.principal import User
from det_controlplane.services.scheduling import stopping
from det_controlplane.services.tasks.allocations import find
from det_controlplane.services.use_case import change

# Containers measure the time with clocks of their own.
_TOLERANCE = 0.9


def report_progress(ctx: Context, user: User, allocation_id: str, age_s: float) -> float:
    """Store how long ago a container's ranks made progress. Return how long ago any rank did."""
    if not 0 <= age_s <= 86400 * 365:
        raise Invalid(f"ageSeconds must be a number of seconds, not {age_s}")
    find(ctx, user, allocation_id)
    now = ctx.now()
    with ctx.db.begin() as tx:
        newest = allocations.note_progress(tx, allocation_id, now - timedelta(seconds=age_s), now)
    if newest is None:
        raise WrongState(f"allocation '{allocation_id}' has ended")
    return max(0.0, (now - newest).total_seconds())


def report_hang(ctx: Context, user: User, allocation_id: str) -> bool:
    """End a run in which no rank made progress for its hang_timeout. Return whether it hangs.

    Every container calls this after it wrote the stacks of its ranks to the log. The first call decides."""
    find(ctx, user, allocation_id)
    with change(ctx) as changed:
        tx, now = changed.tx, changed.now
        timeout_s = allocations.hang_timeout_s(tx, allocation_id)
        allocation = allocations.lock(tx, allocation_id)
        if timeout_s is None or allocation is None:
            return False
        if not allocations.mark_hung(
            tx, allocation_id, now - timedelta(seconds=timeout_s * _TOLERANCE)
        ):
            # Another container has reported the hang, or a rank has made progress meanwhile.
            return allocations.hangs(tx, allocation.task_id, allocation.run_id) > 0
        count = allocations.hangs(tx, allocation.task_id, allocation.run_id)
        reason = f"no rank made progress for {timeout_s:g} s (resources.hang_timeout)"
        charged = "counts" if count > MAX_UNCHARGED_HANGS else "does not count"
        line = f"The run hangs: {reason}. It is killed; this {charged} as a restart."
        logs.add_line(tx, allocation.task_id, line, now, level="WARNING")
        changed.wake(f"logs:{allocation.task_id}")
        stopping.kill_soon(changed, allocation, reason)
        return True
