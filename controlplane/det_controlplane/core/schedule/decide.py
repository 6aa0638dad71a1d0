"""The entry: a pool at one moment in, a plan out."""

from functools import partial
from itertools import repeat

from .fair_share import schedule_by_share
from .model import PoolSnapshot, PreemptReason, Reason, SchedulePlan, Waiting
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
    outcome, ahead, places = pool.outcome, pool.order.place, pool.outcome.places
    if pool.snapshot.settings.scheduler == "fair_share":
        ahead, places = dict.fromkeys(ahead, -1), [-1] * len(places)
    explainer = Explainer(pool.snapshot, pool.slots, pool.aux, pool.limits)
    reasons = {cause: Reason(partial(explainer.explain, cause)) for cause in set(outcome.causes)}
    columns = zip(
        outcome.waiting_ids, map(reasons.__getitem__, outcome.causes), places, strict=True
    )
    # Straight to the tuple, without a Python call for each of ten thousand.
    waiting = tuple(map(tuple.__new__, repeat(Waiting), columns))
    return SchedulePlan(tuple(outcome.start), tuple(outcome.preempt), waiting, ahead)
