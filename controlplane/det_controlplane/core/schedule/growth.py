"""Growth of elastic gangs: a run that holds less than its maximum is asked for a checkpoint if its next run gets more.

A gang grows only while no request of its pool waits for slots, so it never competes with queued work. Each run lasts
at least `SHORTEST_RUN_S` before it grows, because a restart costs about as much as some batches."""

from collections import Counter
from collections.abc import Iterable

from det_controlplane.core.placement.fleet import SlotFleet
from det_controlplane.core.placement.model import Placement

from .model import Growth, Request, Running, Start
from .pool_pass import PoolPass, roster_of
from .queue_order import oldest_first
from .reasons import OverLimit

SHORTEST_RUN_S = 120.0


def grow_one(pool: PoolPass, now: float) -> float | None:
    """Ask the oldest gang that can grow to save a checkpoint. Return when a younger run may grow."""
    gangs = [(r, r.growth) for r in oldest_first(pool.running) if r.growth and not r.releasing]
    if not gangs or not any(pool.slots.free) or _has_queue(pool) or _has_leaving(pool.running):
        return None
    waits = []
    for running, growth in gangs:
        slots = _next_slots(pool, running, growth)
        if growth.started_at is None or slots <= running.slots:
            continue
        due = growth.started_at + SHORTEST_RUN_S
        if due <= now:
            pool.preempt_to_grow(running, slots)
            return None
        waits.append(due)
    return min(waits, default=None)


def _has_queue(pool: PoolPass) -> bool:
    """Return whether a request waits for slots. Requests above the limit of their own job do not."""
    started = {start.allocation_id for start in pool.started}
    waiting = [r for r in pool.requests if r.slots and r.allocation_id not in started]
    return any(not isinstance(pool.waiting.get(r.allocation_id), OverLimit) for r in waiting)


def _has_leaving(running: Iterable[Running]) -> bool:
    """Return whether slots will be free soon. The gang then grows once, with these slots."""
    return any(r.releasing and r.slots for r in running)


def _next_slots(pool: PoolPass, running: Running, growth: Growth) -> int:
    """Return the slots that a gang would get if it left now."""
    taken = Counter[str]()
    for placement in _placements(pool.started):
        taken[placement.agent_id] += placement.slots
    for placement in running.placements:
        taken[placement.agent_id] -= placement.slots
    agents = [agent._replace(used=agent.used + taken[agent.id]) for agent in pool.snapshot.agents]
    fleet = SlotFleet(roster_of(agents, pool.snapshot.settings))
    most = int(min(growth.max_slots, running.slots + pool.limits.room(running.job.id)))
    if most <= running.slots:
        return 0
    request = Request(
        running.allocation_id, running.job, most, running.requested_at,
        single_agent=growth.single_agent, blocked_agents=growth.blocked_agents,
        strict_topology=growth.strict_topology, min_slots=running.slots,
    )  # fmt: skip
    fit = fleet.fit(request)
    return 0 if fit is None else sum(slots for _, slots in fit)


def _placements(starts: Iterable[Start]) -> Iterable[Placement]:
    return (placement for start in starts for placement in start.placements)
