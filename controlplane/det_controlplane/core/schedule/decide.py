"""The entry: a pool at one moment in, a plan out."""

from collections.abc import Sequence
from dataclasses import replace

from .fair_share import schedule_by_share
from .growth import grow_one
from .model import PoolSnapshot, PreemptReason, Running, SchedulePlan
from .pool_pass import PoolPass
from .priority import schedule_by_priority
from .queue_order import oldest_first
from .round_robin import schedule_in_turns


def decide(snapshot: PoolSnapshot, now: float) -> SchedulePlan:
    """Return the plan of a pool: starts, preemptions, and the reasons of the remaining requests.

    The same snapshot at the same time always gives the same plan. The time only decides which requests have waited
    too long."""
    pool = PoolPass(snapshot)
    match snapshot.settings.scheduler:
        case "priority":
            _enforce_max_slots(pool, oldest_first(pool.running)[::-1])
            schedule_by_priority(pool, now)
        case "round_robin":
            _enforce_max_slots(pool, oldest_first(pool.running)[::-1])
            schedule_in_turns(pool)
        case "fair_share":
            _enforce_max_slots(pool, oldest_first(pool.running))
            schedule_by_share(pool)
    return pool.plan(next_at=grow_one(pool, now))


def _enforce_max_slots(pool: PoolPass, in_order: Sequence[Running]) -> None:
    """Preempt the allocations of a job above its limit, in order, and count on their slots for the rest of the pass."""
    surplus = pool.limits.surplus(in_order)
    if not surplus:
        return
    pool.preempt(surplus, PreemptReason.MAX_SLOTS)
    surplus_ids = {running.allocation_id for running in surplus}
    pool.running = [
        replace(running, releasing=True) if running.allocation_id in surplus_ids else running
        for running in pool.running
    ]
