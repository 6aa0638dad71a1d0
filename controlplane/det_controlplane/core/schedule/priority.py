"""The priority scheduler: the most important first, with preemption and backfill (facts §5.4)."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import compress
from operator import attrgetter

from .fleet import Fit, Fleet, shape_of
from .forecast import Forecast
from .model import PreemptReason, Request, Told
from .outcome import Blocked, Cause
from .pool_pass import PoolPass
from .wording import behind, named, next_on

_priority = attrgetter("job.priority")
_STRETCH = 1_000  # so many are passed by at once


def schedule_by_priority(pool: PoolPass) -> None:
    """Requests without slots and requests with slots do not compete: two independent walks."""
    requests = pool.requests
    without_slots = [r for r in requests if not r.slots]
    if without_slots:
        PriorityWalk(pool, pool.aux).run(without_slots)
        requests = [r for r in requests if r.slots]
    PriorityWalk(pool, pool.slots).run(requests)


class PriorityWalk:
    """Visits requests from the most important downwards."""

    def __init__(self, pool: PoolPass, fleet: Fleet) -> None:
        self._fleet = fleet
        self._running = pool.running
        self._order = pool.order
        self._limits = pool.limits
        self._outcome = pool.outcome
        self._preemption = pool.snapshot.settings.preemption
        self._forecast: Forecast | None = None
        self._behind: Told | None = None  # set for the priorities below
        self._next_on: dict[int, Told] = {}  # by agent
        self._next: set[str] = set()  # have room reserved
        self._releasing = False  # somebody waits for slots that are being given back
        self._frozen = False  # that somebody has a more important priority
        self._no_room: dict[object, Blocked] = {}
        # Shapes that can neither start nor get room in this pass: nearly all of a long queue.
        self._hopeless: dict[object, Cause] = {}

    def run(self, requests: Sequence[Request]) -> None:
        """They come in the order of the queue."""
        causes: list[Cause | None] = [None] * self._start_in_order(requests)
        shapes = self._standings(requests)
        while len(causes) < len(requests):
            at = len(causes)
            if self._behind is not None and not self._preemption:
                causes += [self._behind] * (len(requests) - at)
                break
            if self._frozen and self._forecast:  # whose priority it is no longer matters
                end = at + _STRETCH
                causes += self._share_out(self._forecast, requests[at:end], shapes[at:end])
                continue
            priority = requests[at].job.priority
            end = bisect_right(requests, priority, lo=at, key=_priority)
            level = requests[at:end]
            causes += self._visit_all(level, shapes[at:end])
            self._leave_level(priority, level, causes[at:])
        self._outcome.queued.append((requests, causes))

    def _start_in_order(self, requests: Sequence[Request]) -> int:
        """As long as each finds room it is no matter who is more important."""
        fleet, limits, limited = self._fleet, self._limits, bool(self._limits.limited)
        for started, request in enumerate(requests):
            if limited and not limits.allow(request):
                return started
            fit = fleet.fit(request)
            if fit is None:
                return started
            fleet.take(fit)
            if limited:
                limits.started(request)
            self._outcome.begin(request, fleet, fit)
        return len(requests)

    def _standings(self, requests: Sequence[Request]) -> list[object]:
        """Their shapes; None, which never is hopeless, where something else decides as well."""
        limited = self._limits.limited
        if limited:
            return [
                shape_of(r) if r.preemptible and r.job.id not in limited else None for r in requests
            ]
        return [
            (shape_of(r) if r.single_agent or r.blocked_agents else r.slots)
            if r.preemptible
            else None
            for r in requests
        ]

    def _visit_all(self, requests: Sequence[Request], shapes: list[object]) -> list[Cause | None]:
        """Why each waits. In a long queue nearly all shapes are hopeless: those are not looked at one by one."""
        hopeless = self._hopeless
        causes: list[Cause | None] = list(map(hopeless.get, shapes))
        for at, cause in enumerate(causes):
            if cause is not None:
                continue
            known = len(hopeless)
            causes[at] = self._visit(requests[at], shapes[at])
            if len(hopeless) > known:
                causes[at + 1 :] = map(hopeless.get, shapes[at + 1 :])
        return causes

    def _visit(self, request: Request, shape: object) -> Cause | None:
        """None if it starts, else why not."""
        if shape is None:
            if self._behind is not None and not request.preemptible:
                return self._behind
            if not self._limits.allow(request):
                self._outcome.unexplained = True
                return self._limits.cause(request)
            shape = shape_of(request)
            if shape in self._hopeless:
                return self._hopeless[shape]
        if not self._frozen and shape not in self._no_room:
            fit = self._fleet.fit(request)
            if fit is not None:
                self._begin(request, fit)
                return None
            self._no_room[shape] = Blocked(request)
        victims = self._make_room(request) if self._preemption else None
        if victims is None:
            # Later requests of this shape rank lower: they have no more room and fewer victims.
            cause: Cause | None = self._behind if self._frozen else None
            if cause is None:
                self._outcome.unexplained = True
                cause = self._no_room[shape]
            self._hopeless[shape] = cause
            return cause
        return victims

    def _share_out(
        self, forecast: Forecast, requests: Sequence[Request], shapes: list[object]
    ) -> list[Cause | None]:
        """Nothing starts any more, so what is free or will be is shared out; most only need one agent."""
        hopeless, next_on = self._hopeless, self._next_on
        causes: list[Cause | None] = list(map(hopeless.get, shapes))
        for at, cause in enumerate(causes):
            if cause is not None:
                continue
            request, shape = requests[at], shapes[at]
            if isinstance(shape, int):
                agent = forecast.claim(request.slots or 1, request.job)
                if agent is not None:
                    causes[at] = next_on.get(agent) or self._waits_for(agent)
                    continue
            known = len(hopeless)
            causes[at] = self._visit(request, shape)
            if len(hopeless) > known:
                causes[at + 1 :] = map(hopeless.get, shapes[at + 1 :])
        return causes

    def _leave_level(
        self, priority: int, requests: Sequence[Request], causes: list[Cause | None]
    ) -> None:
        if self._behind is None:
            failed = compress(requests, causes)
            # Who may start no more because its job has reached max_slots meanwhile is in nobody's way.
            stopped = (r for r in failed if r.allocation_id in self._next or self._limits.allow(r))
            blocker = next(stopped, None)
            if blocker is not None:
                self._behind = behind(blocker, priority)
        if self._releasing and not self._frozen and self._behind:
            self._frozen = True
            self._hopeless.update(dict.fromkeys(self._hopeless, self._behind))

    def _begin(self, request: Request, fit: Fit) -> None:
        self._fleet.take(fit)
        if self._forecast is not None:
            self._forecast.take(fit)
        if self._limits.limited:
            self._limits.started(request)
        self._outcome.begin(request, self._fleet, fit, backfilled=self._behind is not None)

    def _make_room(self, request: Request) -> Told | None:
        """Reserve what will be free, asking less important allocations to leave where needed."""
        if self._forecast is None:
            self._forecast = self._look_ahead()
        reservation = self._forecast.reserve(request)
        if reservation is None:
            return None
        fit, leaving = reservation
        self._outcome.ask(leaving, PreemptReason.HIGHER_PRIORITY)
        if self._limits.limited:
            self._limits.reserved(request)
        if not self._frozen:  # else nothing starts any more
            self._keep(request, fit)
        if len(fit) > 1:
            return next_on(named([self._fleet.agents[agent].id for agent, _ in fit]))
        return self._next_on.get(fit[0][0]) or self._waits_for(fit[0][0])

    def _waits_for(self, agent: int) -> Told:
        cause = self._next_on[agent] = next_on(self._fleet.agents[agent].id)
        return cause

    def _keep(self, request: Request, fit: Fit) -> None:
        """Nothing starts on these agents before the request does."""
        self._releasing = True
        if self._behind is None:
            self._next.add(request.allocation_id)
        for agent, _ in fit:
            self._fleet.hold(agent)

    def _look_ahead(self) -> Forecast:
        rivals = [r for r in self._running if bool(r.slots) is self._fleet.has_slots]
        leaving = [r for r in rivals if r.releasing and not r.preemptible]
        others = [r for r in rivals if r.preemptible]
        candidates = self._order.arrange(others, [r.job for r in others])
        return Forecast(self._fleet, leaving, candidates)
