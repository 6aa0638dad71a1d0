"""The priority scheduler: the most important first, with preemption and backfill (facts §5.4)."""

from .fleet import Fit, Fleet, shape_of
from .forecast import Forecast
from .model import Preempt, PreemptReason, Request, Running
from .outcome import Behind, Blocked, Cause, Victims
from .pool_pass import PoolPass


def schedule_by_priority(pool: PoolPass) -> None:
    """Requests without slots and requests with slots do not compete: two independent walks."""
    pending, running = pool.snapshot.pending, pool.running
    without_slots = [r for r in pending if not r.slots]
    if without_slots:
        PriorityWalk(pool, pool.aux, [r for r in running if not r.slots]).run(without_slots)
    with_slots = [r for r in pending if r.slots]
    PriorityWalk(pool, pool.slots, [r for r in running if r.slots]).run(with_slots)


class PriorityWalk:
    """Visits requests from the most important downwards."""

    def __init__(self, pool: PoolPass, fleet: Fleet, running: list[Running]) -> None:
        self._fleet = fleet
        self._running = running
        self._order = pool.order
        self._limits = pool.limits
        self._outcome = pool.outcome
        self._preemption = pool.snapshot.settings.preemption
        self._forecast: Forecast | None = None
        self._failed: list[Request] = []  # wanted to start and could not
        self._behind: Behind | None = None  # set for the priorities below
        self._victims: dict[tuple[int, ...], Victims] = {}
        self._next: set[str] = set()  # have room reserved
        self._releasing = False  # somebody waits for slots that are being given back
        self._frozen = False  # that somebody has a more important priority
        self._no_room: dict[object, Blocked] = {}
        # Shapes that can neither start nor get room in this pass: nearly all of a long queue.
        self._hopeless: dict[object, Cause] = {}

    def run(self, pending: list[Request]) -> None:
        levels = iter(self._order.levels)
        priority, level_end = 0, 0
        hopeless, limited, outcome = self._hopeless, self._limits.limited, self._outcome
        waiting, causes, places = outcome.waiting_ids, outcome.causes, outcome.places
        requests, all_places = self._order.arrange(pending)
        for at, (request, place) in enumerate(zip(requests, all_places, strict=True)):
            while place >= level_end:
                self._leave_level(priority)
                priority, level_end = next(levels)
            behind = self._behind
            if behind is not None and not self._preemption:
                self._all_wait(requests[at:], all_places[at:], behind)
                return
            cause: Cause | None
            if behind is not None and not request.preemptible:
                cause = behind
            elif limited and request.job_id in limited and not self._limits.allow(request):
                cause = self._limits.cause(request.job_id)
            else:
                plain = not (request.single_agent or request.blocked_agents)
                shape = request.slots if plain else shape_of(request)
                cause = hopeless.get(shape) or self._try(request, shape, place)
                if cause is None:
                    continue
                if behind is None:
                    self._failed.append(request)
            waiting.append(request.allocation_id)
            causes.append(cause)
            places.append(place)

    def _all_wait(self, requests: list[Request], places: list[int], behind: Behind) -> None:
        self._outcome.waiting_ids += [r.allocation_id for r in requests]
        self._outcome.causes += [behind] * len(requests)
        self._outcome.places += places

    def _leave_level(self, priority: int) -> None:
        # Who may start no more because its job has reached max_slots meanwhile is in nobody's way.
        stopped = (
            r for r in self._failed if r.allocation_id in self._next or self._limits.allow(r)
        )
        blocker = next(stopped, None)
        if self._behind is None and blocker is not None:
            self._behind = Behind(blocker, priority)
        self._failed.clear()
        if self._releasing and not self._frozen and self._behind:
            self._frozen = True
            self._hopeless.update(dict.fromkeys(self._hopeless, self._behind))

    def _try(self, request: Request, shape: object, place: int) -> Cause | None:
        """None if it starts, else why not."""
        if not self._frozen and shape not in self._no_room:
            fit = self._fleet.fit(request)
            if fit is not None:
                self._begin(request, fit)
                return None
            self._no_room[shape] = Blocked(request)
        victims = self._make_room(request, place) if self._preemption else None
        if victims is not None:
            return victims
        # Later requests of this shape rank lower: they have no more room and fewer victims.
        cause = self._behind if self._frozen and self._behind else self._no_room[shape]
        self._hopeless[shape] = cause
        return cause

    def _begin(self, request: Request, fit: Fit) -> None:
        self._fleet.take(fit)
        if self._forecast is not None:
            self._forecast.take(fit)
        self._limits.started(request)
        self._outcome.begin(request, self._fleet, fit, backfilled=self._behind is not None)

    def _make_room(self, request: Request, place: int) -> Victims | None:
        """Reserve what will be free, asking less important allocations to leave where needed."""
        if self._forecast is None:
            self._forecast = self._look_ahead()
        reservation = self._forecast.reserve(request, place)
        if reservation is None:
            return None
        self._releasing = True
        self._limits.reserved(request)
        self._next.add(request.allocation_id)
        fit, victims = reservation
        for victim in victims:
            self._outcome.preempt.append(
                Preempt(victim.allocation_id, PreemptReason.HIGHER_PRIORITY)
            )
        if not self._frozen:  # else nothing starts any more
            for agent, _ in fit:
                self._fleet.hold(agent)
        key = tuple([agent for agent, _ in fit])
        if key not in self._victims:
            self._victims[key] = Victims(tuple([self._fleet.agents[agent].id for agent in key]))
        return self._victims[key]

    def _look_ahead(self) -> Forecast:
        place = self._order.place
        leaving = [r for r in self._running if r.releasing and not r.preemptible]
        victims = [(place[r.job_id], r) for r in self._running if r.preemptible]
        victims.sort(key=lambda v: (v[0], v[1].requested_at, v[1].allocation_id), reverse=True)
        return Forecast(self._fleet, leaving, victims)
