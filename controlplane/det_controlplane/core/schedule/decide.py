"""The entry: a pool at one moment in, a plan out."""

from dataclasses import replace

from .fair_share import schedule_by_share
from .model import PoolSnapshot, PreemptReason, SchedulePlan
from .pool_pass import PoolPass
from .priority import schedule_by_priority
from .round_robin import schedule_in_turns


def decide(snapshot: PoolSnapshot, now: float) -> SchedulePlan:
    """Return what starts where, what has to leave, and why the rest waits.

    The same snapshot always gets the same plan; `now` is part of every decision's form, and time decides nothing here.
    """
    pool = PoolPass(snapshot)
    match snapshot.settings.scheduler:
        case "priority":
            _enforce_max_slots(pool)
            schedule_by_priority(pool)
        case "round_robin":
            _enforce_max_slots(pool)
            schedule_in_turns(pool)
        case "fair_share":
            schedule_by_share(pool)
    return pool.plan()


def _enforce_max_slots(pool: PoolPass) -> None:
    """Preempt what a job holds above its limit, and count on it for the rest of the pass."""
    surplus = pool.limits.surplus(pool.running)
    if not surplus:
        return
    pool.preempt(surplus, PreemptReason.MAX_SLOTS)
    leaving = {running.allocation_id for running in surplus}
    pool.running = [
        replace(running, releasing=True) if running.allocation_id in leaving else running
        for running in pool.running
    ]
