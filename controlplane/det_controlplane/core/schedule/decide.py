"""The entry: a pool at one moment in, a plan out."""

from .fair_share import schedule_by_share
from .model import PoolSnapshot, PreemptReason
from .plan import SchedulePlan, WaitingList
from .pool_pass import PoolPass
from .priority import schedule_by_priority
from .reasons import Explainer
from .round_robin import schedule_in_turns


def decide(snapshot: PoolSnapshot, now: float) -> SchedulePlan:
    """What starts where, what has to leave, and why the rest waits.

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
    return _plan(pool)


def _enforce_max_slots(pool: PoolPass) -> None:
    surplus = pool.limits.surplus(pool.running)
    if surplus:
        pool.preempt(surplus, PreemptReason.MAX_SLOTS)


def _plan(pool: PoolPass) -> SchedulePlan:
    outcome, snapshot = pool.outcome, pool.snapshot
    explain = Explainer(snapshot, pool.slots, pool.limits).explain
    waiting = WaitingList(outcome, explain, snapshot)
    return SchedulePlan(tuple(outcome.start), tuple(outcome.preempt), waiting, snapshot)
