"""Fair share: every job gets slots in proportion to its weight (facts §5.5)."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from .attempts import Attempts
from .fleet import Roster, shape_of
from .model import Agent, Job, PreemptReason, Request, Running, Told
from .outcome import Blocked, Cause
from .pool_pass import PoolPass
from .shares import Claim, offers
from .slot_fleet import SlotFleet
from .wording import share_used

_new = tuple.__new__  # without a Python call for each of thousands
Held = dict[str, list[Running]]  # by job
Asked = dict[str, list[int]]  # by job: where its requests stand in the queue


def schedule_by_share(pool: PoolPass) -> None:
    """Offers depend on what is alive, not on what already runs, so a plan once applied stays the plan."""
    requests = pool.requests
    causes: list[Cause | None] = [None] * len(requests)
    running = [r for r in pool.running if r.slots]
    feasible, attempts = _Feasible(pool, running), Attempts(pool)
    asked: Asked = defaultdict(list)
    for at, request in enumerate(requests):
        if not request.slots:
            causes[at] = attempts.start(request)
        elif (never := feasible.never(request)) is not None:
            causes[at] = never
        else:
            asked[request.job.id].append(at)
    held: Held = defaultdict(list)
    for allocation in running:
        held[allocation.job.id].append(allocation)
    offered = offers(_claims(requests, asked, held), _capacity(pool, running))
    _release(pool, held, offered)
    shares = _Shares(pool, attempts, requests, causes)
    for job_id, places in asked.items():
        holds = sum([r.slots for r in held[job_id]]) if job_id in held else 0
        shares.hand_out(places, offered[job_id], holds)
    pool.outcome.queued.append((requests, causes))


class _Shares:
    def __init__(
        self,
        pool: PoolPass,
        attempts: Attempts,
        requests: Sequence[Request],
        causes: list[Cause | None],
    ) -> None:
        self._limited = pool.limits.limited
        self._attempts = attempts
        self._requests = requests
        self._causes = causes
        self._used: dict[tuple[int, int], Told] = {}  # one for all jobs with equal numbers

    def hand_out(self, places: list[int], offered: int, holds: int) -> None:
        """Start what fits into what a job is offered; `places` are those of its requests."""
        beyond = []
        for at in places:
            request = self._requests[at]
            if self._limited and (over := self._attempts.over_limit(request)):
                self._causes[at] = over
            elif holds + request.slots > offered:
                beyond.append(at)
            elif (cause := self._attempts.start(request)) is None:
                holds += request.slots
            else:
                self._causes[at] = cause
        if beyond:
            used = self._used.get((offered, holds))
            if used is None:
                used = self._used[offered, holds] = share_used(offered, holds)
            for at in beyond:
                self._causes[at] = used


def _claims(requests: Sequence[Request], asked: Asked, held: Held) -> list[Claim]:
    claims = []
    for job_id, places in asked.items():
        first = requests[places[0]]
        job, slots = first.job, first.slots
        if (
            len(places) == 1 and job_id not in held and job.max_slots is None
        ):  # nearly all of a long queue
            claims.append(_new(Claim, (slots, job.submitted_at, job_id, job.weight, slots, 0)))
        else:
            sizes = [requests[at].slots for at in places]
            claims.append(_claim(job, sizes, held.get(job_id, ())))
    idle = [allocations for job_id, allocations in held.items() if job_id not in asked]
    return claims + [_claim(allocations[0].job, [], allocations) for allocations in idle]


def _claim(job: Job, sizes: list[int], allocations: Sequence[Running]) -> Claim:
    fixed = 0
    if allocations:
        sizes = sizes + [a.slots for a in allocations]
        fixed = sum([a.slots for a in allocations if not a.preemptible])
    demand, smallest, limit = sum(sizes), min(sizes), job.max_slots
    if limit is not None:
        # It may leave no room for any of its allocations.
        demand = min(demand, limit) if limit >= smallest else 0
    return _new(Claim, (demand, job.submitted_at, job.id, job.weight, smallest, fixed))


def _capacity(pool: PoolPass, running: Sequence[Running]) -> int:
    """Slots that can be given, and those that are held on agents which give no more."""
    index, is_open = pool.slots.index, pool.slots.open
    given = sum(t for t, o in zip(pool.slots.total, is_open, strict=True) if o)
    placements = (p for r in running for p in r.placements)
    return given + sum(
        p.slots for p in placements if p.agent_id not in index or not is_open[index[p.agent_id]]
    )


def _release(pool: PoolPass, held: Held, offered: dict[str, int]) -> None:
    leaving: list[Running] = []
    for job_id, allocations in held.items():
        staying = [r for r in allocations if not r.releasing]
        surplus = sum(r.slots for r in staying) - offered[job_id]
        for allocation in sorted(staying, key=lambda r: (r.requested_at, r.allocation_id)):
            if surplus > 0 and allocation.preemptible:
                leaving.append(allocation)
                surplus -= allocation.slots
    pool.preempt(leaving, PreemptReason.FAIR_SHARE)


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
        self._known: dict[object, Blocked | None] = {}

    def never(self, request: Request) -> Blocked | None:
        """The cause if it would not fit."""
        shape = shape_of(request)
        if shape not in self._known:
            fits = self._fleet.fit(request) is not None
            self._known[shape] = None if fits else Blocked(request)
        return self._known[shape]


def _without(agent: Agent, slots: int) -> Agent:
    return replace(agent, used=max(0, agent.used - slots))
