"""The entry: a pool at one moment in, a plan out."""

from .fair_share import schedule_by_share
from .model import PoolSnapshot, PreemptReason, SchedulePlan, Waiting
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
    rows, ahead = pool.outcome.waiting, pool.order.place
    if pool.snapshot.settings.scheduler == "fair_share":
        ahead = dict.fromkeys(ahead, -1)
        rows = [(id, cause, -1) for id, cause, _ in rows]
    explainer = Explainer(pool.snapshot, pool.slots, pool.aux, pool.limits)
    reasons = {cause: explainer.explain(cause) for cause in {row[1] for row in rows}}
    make = tuple.__new__  # without a Python call for each of ten thousand
    waiting = tuple([make(Waiting, (id, reasons[cause], place)) for id, cause, place in rows])
    return SchedulePlan(tuple(pool.outcome.start), tuple(pool.outcome.preempt), waiting, ahead)
