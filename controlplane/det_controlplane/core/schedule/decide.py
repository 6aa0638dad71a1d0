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
    ahead = pool.order.jobs_ahead(pool.snapshot)
    explainer = Explainer(pool.snapshot, pool.slots, pool.aux, pool.limits)
    outcome = pool.outcome
    reasons = {id(cause): cause for _, _, cause in outcome.waits}
    sentences = {key: explainer.explain(cause) for key, cause in reasons.items()}
    waiting = tuple(
        Waiting(allocation_id, sentences[id(cause)], ahead[job_id])
        for allocation_id, job_id, cause in outcome.waits
    )
    return SchedulePlan(tuple(outcome.start), tuple(outcome.preempt), waiting, ahead)
