"""Fair share: every job gets slots in proportion to its weight (docs/concepts/scheduling.md#fair-share)."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

from .fleet import Roster, SlotFleet
from .model import PreemptReason, Request, Running
from .pool_pass import PoolPass
from .reasons import NoRoom, OverLimit
from .shares import Claim, offers
from .wording import share_used


def schedule_by_share(pool: PoolPass) -> None:
    """Offer slots by what is alive, not by what already runs, so a plan once applied stays the plan."""
    running: defaultdict[str, list[Running]] = defaultdict(list)
    for allocation in pool.running:
        if allocation.slots:
            running[allocation.job.id].append(allocation)
    pending: defaultdict[str, list[Request]] = defaultdict(list)
    feasible = _Feasible(pool)
    for request in pool.requests:
        if not request.slots:
            _start(pool, request)
        elif (never := feasible.never(request)) is not None:
            pool.waiting[request.allocation_id] = never
        else:
            pending[request.job.id].append(request)
    claims = [
        _claim(pending.get(job_id, []), running.get(job_id, []))
        for job_id in dict.fromkeys([*pending, *running])
    ]
    offered = offers(claims, _capacity(pool))
    for job_id, allocations in running.items():
        _release(pool, allocations, offered[job_id])
    for job_id, requests in pending.items():
        holds = sum(allocation.slots for allocation in running.get(job_id, []))
        _hand_out(pool, requests, offered[job_id], holds)


def _claim(pending: Sequence[Request], running: Sequence[Running]) -> Claim:
    items: list[Request | Running] = [*pending, *running]
    job, sizes = items[0].job, [item.slots for item in items]
    demand = sum(sizes)
    if job.max_slots is not None:
        # The limit may leave no room for any of its allocations.
        demand = min(demand, job.max_slots) if job.max_slots >= min(sizes) else 0
    fixed = sum(allocation.slots for allocation in running if not allocation.preemptible)
    return Claim(demand, job.submitted_at, job.id, job.weight, min(sizes), fixed)


def _capacity(pool: PoolPass) -> int:
    """Return the slots that can be given, and those that are held on agents which give no more."""
    given = {agent.id: agent.slots for agent in pool.snapshot.agents if agent.is_open}
    held = (p for r in pool.running for p in r.placements)
    return sum(given.values()) + sum(p.slots for p in held if p.agent_id not in given)


def _release(pool: PoolPass, allocations: list[Running], offered: int) -> None:
    """Preempt what a job holds above its share, the oldest first."""
    staying = [r for r in allocations if not r.releasing]
    surplus = sum(r.slots for r in staying) - offered
    for allocation in sorted(staying, key=lambda r: (r.requested_at, r.allocation_id)):
        if surplus > 0 and allocation.preemptible:
            pool.preempt([allocation], PreemptReason.FAIR_SHARE)
            surplus -= allocation.slots


def _hand_out(pool: PoolPass, requests: list[Request], offered: int, holds: int) -> None:
    """Start what fits into what a job is offered."""
    beyond = []
    for request in requests:
        if not pool.limits.allow(request):
            pool.waiting[request.allocation_id] = OverLimit(request)
        elif holds + request.slots > offered:
            beyond.append(request)
        elif _start(pool, request):
            holds += request.slots
    for request in beyond:
        pool.waiting[request.allocation_id] = share_used(offered, holds)


def _start(pool: PoolPass, request: Request) -> bool:
    if pool.start(request) is not None:
        return True
    pool.waiting[request.allocation_id] = pool.no_room(request)
    return False


class _Feasible:
    """Whether a request would fit if everything that can be preempted had left."""

    def __init__(self, pool: PoolPass) -> None:
        leaving = Counter[str]()
        for allocation in pool.running:
            if allocation.preemptible or allocation.releasing:
                for placement in allocation.placements:
                    leaving[placement.agent_id] += placement.slots
        agents = [replace(a, used=max(0, a.used - leaving[a.id])) for a in pool.snapshot.agents]
        self._fleet = SlotFleet(Roster(agents, pool.snapshot.settings))
        self._known: dict[object, NoRoom | None] = {}

    def never(self, request: Request) -> NoRoom | None:
        """Return the cause if it would not fit."""
        if request.shape not in self._known:
            fits = self._fleet.fit(request) is not None
            self._known[request.shape] = None if fits else NoRoom(request)
        return self._known[request.shape]
