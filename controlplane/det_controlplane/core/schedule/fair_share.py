"""Fair share: every job gets slots in proportion to its weight (facts §5.5)."""

from collections import defaultdict
from collections.abc import Sequence

from .fleet import Fit, Roster, shape_of
from .model import Agent, PreemptReason, Request, Running
from .outcome import Blocked, Cause, ShareUsed
from .pool_pass import PoolPass
from .shares import Claim, offers
from .slot_fleet import SlotFleet


def schedule_by_share(pool: PoolPass) -> None:
    """Offers depend on what is alive, not on what already runs, so a plan once applied stays the plan."""
    no_container: dict[object, Blocked] = {}
    pending = []
    for request in pool.order.arrange(pool.snapshot.pending)[0]:
        if request.slots:
            pending.append(request)
        else:
            _start_or_wait(pool, request, no_container)
    running = [r for r in pool.running if r.slots]
    feasible = _Feasible(pool, running)
    hopeless: dict[object, Blocked] = {}
    asked: dict[str, list[Request]] = defaultdict(list)
    for request in pending:
        if feasible.holds(request):
            asked[request.job_id].append(request)
        else:
            blocked = hopeless.setdefault(shape_of(request), Blocked(request))
            _wait(pool, request, blocked)
    held: dict[str, list[Running]] = defaultdict(list)
    for allocation in running:
        held[allocation.job_id].append(allocation)
    offered = offers(_claims(pool, asked, held), _capacity(pool, running))
    _release(pool, held, offered)
    _start(pool, asked, held, offered)


def _claims(
    pool: PoolPass, asked: dict[str, list[Request]], held: dict[str, list[Running]]
) -> list[Claim]:
    claims = []
    for job in pool.snapshot.jobs:
        requests, allocations = asked.get(job.id, ()), held.get(job.id, ())
        sizes = [a.slots for a in requests] + [a.slots for a in allocations]
        if not sizes:
            continue
        demand, smallest, limit = sum(sizes), min(sizes), job.max_slots
        if limit is not None:
            # It may leave no room for any of its allocations.
            demand = min(demand, limit) if limit >= smallest else 0
        fixed = sum([r.slots for r in allocations if not r.preemptible])
        claims.append(Claim(job.id, job.submitted_at, job.weight, demand, smallest, fixed))
    return claims


def _capacity(pool: PoolPass, running: Sequence[Running]) -> int:
    """Slots that can be given, and those that are held on agents which give no more."""
    index, is_open = pool.slots.index, pool.slots.open
    given = sum(t for t, o in zip(pool.slots.total, is_open, strict=True) if o)
    placements = (p for r in running for p in r.placements)
    return given + sum(
        p.slots for p in placements if p.agent_id not in index or not is_open[index[p.agent_id]]
    )


def _release(pool: PoolPass, held: dict[str, list[Running]], offered: dict[str, int]) -> None:
    leaving: list[Running] = []
    for job_id, allocations in held.items():
        staying = [r for r in allocations if not r.releasing]
        surplus = sum(r.slots for r in staying) - offered[job_id]
        for allocation in sorted(staying, key=lambda r: (r.requested_at, r.allocation_id)):
            if surplus > 0 and allocation.preemptible:
                leaving.append(allocation)
                surplus -= allocation.slots
    pool.preempt(leaving, PreemptReason.FAIR_SHARE)


def _start(
    pool: PoolPass,
    asked: dict[str, list[Request]],
    held: dict[str, list[Running]],
    offered: dict[str, int],
) -> None:
    no_room: dict[object, Blocked] = {}
    limited = pool.limits.limited
    for job_id, requests in asked.items():
        left = offered[job_id] - sum([r.slots for r in held.get(job_id, ())])
        used = ShareUsed(job_id, offered[job_id])
        for request in requests:
            if limited and not pool.limits.allow(request):
                _wait(pool, request, pool.limits.cause(job_id))
            elif request.slots > left:
                _wait(pool, request, used)
            elif _start_or_wait(pool, request, no_room):
                left -= request.slots


def _start_or_wait(pool: PoolPass, request: Request, no_room: dict[object, Blocked]) -> bool:
    fleet, shape = pool.fleet_of(request), shape_of(request)
    fit: Fit | None = None if shape in no_room else fleet.fit(request)
    if fit is None:
        _wait(pool, request, no_room.setdefault(shape, Blocked(request)))
        return False
    fleet.take(fit)
    pool.limits.started(request)
    pool.outcome.begin(request, fleet, fit)
    return True


def _wait(pool: PoolPass, request: Request, cause: Cause) -> None:
    pool.outcome.wait(request, cause)


class _Feasible:
    """Whether a request would fit if everything that can be preempted had left."""

    def __init__(self, pool: PoolPass, running: Sequence[Running]) -> None:
        leaving: dict[str, int] = defaultdict(int)
        for allocation in running:
            if allocation.preemptible or allocation.releasing:
                for placement in allocation.placements:
                    leaving[placement.agent_id] += placement.slots
        agents = tuple(_without(a, leaving[a.id]) for a in pool.snapshot.agents)
        self._fleet = SlotFleet(Roster(agents, pool.snapshot.settings))
        self._known: dict[object, bool] = {}

    def holds(self, request: Request) -> bool:
        shape = shape_of(request)
        if shape not in self._known:
            self._known[shape] = self._fleet.fit(request) is not None
        return self._known[shape]


def _without(agent: Agent, slots: int) -> Agent:
    return Agent(
        agent.id,
        agent.slots,
        max(0, agent.used - slots),
        agent.aux_limit,
        agent.aux_used,
        agent.enabled,
        agent.draining,
    )
