"""Fair share: every job gets slots in proportion to its weight (docs/concepts/scheduling.md#fair-share)."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

from det_controlplane.core.placement.fleet import SlotFleet
from det_controlplane.core.placement.reservations import Reservations

from .model import PreemptReason, Request, Running
from .pool_pass import PoolPass, roster_of
from .queue_order import oldest_first
from .reasons import NoRoom, OverLimit
from .shares import Claim, Piece, choose, fair_shares
from .wording import next_on, share_used


def schedule_by_share(pool: PoolPass) -> None:
    """Start the requests within the shares. Only allocations beyond the shares are preempted, and only if others
    start instead."""
    pending: list[Request] = []
    feasible = _Feasible(pool)
    for request in pool.requests:
        if not request.slots:
            if pool.start(request) is None:
                pool.waiting[request.allocation_id] = pool.no_room(request)
        elif (never := feasible.never(request)) is not None:
            pool.waiting[request.allocation_id] = never
        else:
            pending.append(request)
    running = [allocation for allocation in pool.running if allocation.slots]
    _ShareRound(pool, running, pending).hand_out()


class _ShareRound:
    """Slots of one pass: the share of each job, and which of its allocations run."""

    def __init__(self, pool: PoolPass, running: list[Running], pending: list[Request]) -> None:
        self._pool = pool
        self._pending = pending
        claims, capacity = _claims(running, pending), _capacity(pool)
        self._shares = fair_shares(claims, capacity)
        self._chosen = choose(claims, self._shares, capacity)
        self._holds = Counter[str]()
        for allocation in running:
            self._holds[allocation.job.id] += allocation.slots
        staying = [r for r in running if r.preemptible and not r.releasing]
        self._beyond = [r for r in staying if r.allocation_id not in self._chosen]
        self._jobs_beyond = {allocation.job.id for allocation in self._beyond}
        self._reservations = Reservations(pool.slots, *self._leaving_and_victims(running))

    def _leaving_and_victims(self, running: list[Running]) -> tuple[list[Running], list[Running]]:
        """Return the allocations that leave anyway, and those that may be preempted, farthest beyond their share
        first.

        Allocations that an earlier pass preempted come first, so that this pass makes the same choices."""
        leaving = [r for r in running if r.releasing and not r.preemptible]
        earlier_victims = [r for r in running if r.releasing and r.preemptible]
        excess = {
            job_id: (self._holds[job_id] - self._shares[job_id]) for job_id in self._jobs_beyond
        }
        beyond = oldest_first(self._beyond)
        beyond.sort(key=lambda r: -excess[r.job.id] / r.job.weight)
        return leaving, [*oldest_first(earlier_victims), *beyond]

    def hand_out(self) -> None:
        """Start the chosen requests, or reserve slots that become free for them."""
        pool = self._pool
        for request in self._pending:
            if not pool.limits.allow(request):
                pool.waiting[request.allocation_id] = OverLimit(request)
            elif request.allocation_id not in self._chosen or request.job.id in self._jobs_beyond:
                job_id = request.job.id
                pool.waiting[request.allocation_id] = share_used(
                    self._shares[job_id], self._holds[job_id]
                )
            else:
                self._start_or_reserve(request)

    def _within_share(self, request: Request) -> Request:
        """Return the request of an elastic gang with at most its job's share, and at least its minimum."""
        if request.min_slots is None:
            return request
        rest = int(self._shares[request.job.id] - self._holds[request.job.id])
        return replace(request, slots=min(request.slots, max(request.min_slots, rest)))

    def _start_or_reserve(self, request: Request) -> None:
        pool = self._pool
        within = self._within_share(request)
        fit = pool.start(within)
        if fit is not None:
            self._holds[request.job.id] += sum(slots for _, slots in fit)
            self._reservations.take(fit)
            return
        # Preemption frees a number of slots and cannot choose their links.
        reservation = None if request.strict_topology else self._reservations.reserve(request)
        if reservation is None:
            pool.waiting[request.allocation_id] = pool.no_room(within)
            return
        pool.preempt(reservation.victims, PreemptReason.FAIR_SHARE)
        pool.limits.reserved(request)
        for agent, _ in reservation.fit:
            pool.slots.hold(agent)  # no other request starts there before this one
        pool.waiting[request.allocation_id] = next_on(pool.slots.agent_ids(reservation.fit))


def _claims(running: list[Running], pending: list[Request]) -> list[Claim]:
    """Return the claims of each job, its newest running allocations first: the oldest leaves first."""
    pieces: defaultdict[str, list[Piece]] = defaultdict(list)
    fixed, stretch = Counter[str](), Counter[str]()
    items: list[Request | Running] = [*pending, *running]
    jobs = {item.job.id: item.job for item in items}
    for r in reversed(oldest_first(running)):
        if not r.preemptible:
            fixed[r.job.id] += r.slots
        elif not r.releasing:
            pieces[r.job.id].append(Piece(r.allocation_id, r.slots, stays=True))
    for r in running:
        if r.preemptible and r.releasing:
            pieces[r.job.id].append(Piece(r.allocation_id, r.slots))
    for request in pending:
        pieces[request.job.id].append(Piece(request.allocation_id, request.least_slots, waits=True))
        stretch[request.job.id] += request.slots - request.least_slots
    return [
        Claim(job, fixed[id], _limit_pieces(job.max_slots, fixed[id], pieces[id]), stretch[id])
        for id, job in jobs.items()
    ]


def _limit_pieces(limit: int | None, job_slots: int, pieces: Sequence[Piece]) -> Sequence[Piece]:
    """Return the pieces that a job may hold together."""
    if limit is None:
        return pieces
    allowed = []
    for piece in pieces:
        if job_slots + piece.slots <= limit:
            job_slots += piece.slots
            allowed.append(piece)
    return allowed


def _capacity(pool: PoolPass) -> int:
    """Return the available slots, and the slots that are held on agents without further work."""
    slots_by_agent = {agent.id: agent.slots for agent in pool.snapshot.agents if agent.is_open}
    placements = (p for r in pool.running for p in r.placements)
    return sum(slots_by_agent.values()) + sum(
        p.slots for p in placements if p.agent_id not in slots_by_agent
    )


class _Feasible:
    """Tell which requests could never fit, even with everything preemptible gone."""

    def __init__(self, pool: PoolPass) -> None:
        leaving_slots = Counter[str]()
        for allocation in pool.running:
            if allocation.preemptible or allocation.releasing:
                for placement in allocation.placements:
                    leaving_slots[placement.agent_id] += placement.slots
        agents = [
            a._replace(used=max(0, a.used - leaving_slots[a.id]), topology=None)
            for a in pool.snapshot.agents
        ]
        self._fleet = SlotFleet(roster_of(agents, pool.snapshot.settings))
        self._known: dict[object, NoRoom | None] = {}

    def never(self, request: Request) -> NoRoom | None:
        """Return the cause if it would not fit."""
        if request.shape not in self._known:
            fits = self._fleet.fit(request) is not None
            self._known[request.shape] = None if fits else NoRoom(request)
        return self._known[request.shape]
