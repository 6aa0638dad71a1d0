"""The priority scheduler: the most important first, with preemption and backfill (facts §5.4)."""

from collections.abc import Iterable

from .fleet import Fleet, shape_of
from .forecast import Forecast
from .model import Preempt, PreemptReason, Request, Running
from .outcome import Behind, Blocked, Victims
from .pool_pass import PoolPass


def schedule_by_priority(pool: PoolPass) -> None:
    """Requests without slots and requests with slots do not compete: two independent walks."""
    for fleet, needs_slots in ((pool.aux, False), (pool.slots, True)):
        pending = [r for r in pool.pending if (r.slots > 0) is needs_slots]
        running = [r for r in pool.running if (r.slots > 0) is needs_slots]
        PriorityWalk(pool, fleet, running).run(pending)


class PriorityWalk:
    def __init__(self, pool: PoolPass, fleet: Fleet, running: list[Running]) -> None:
        self._fleet = fleet
        self._running = running
        self._order = pool.order
        self._limits = pool.limits
        self._outcome = pool.outcome
        self._preemption = pool.snapshot.settings.preemption
        self._forecast: Forecast | None = None
        self._hopeless: set[object] = set()
        self._no_room: dict[object, Blocked] = {}
        self._releasing = False  # somebody waits for slots that are being given back

    def run(self, pending: Iterable[Request]) -> None:
        """`pending` is in queue order."""
        blocker: Request | None = None
        frozen = False
        behind: Behind | None = None
        priority = -1
        failed: Request | None = None
        for request in pending:
            if self._order.priority[request.job_id] != priority:
                priority = self._order.priority[request.job_id]
                if failed is not None and blocker is None:
                    blocker = failed
                    behind = Behind(failed, self._order.priority[failed.job_id])
                frozen = self._releasing
            if behind is not None and not (self._preemption and request.preemptible):
                self._outcome.wait(request, behind)
            elif not self._limits.allow(request):
                self._outcome.wait(request, self._limits.cause(request.job_id))
            elif frozen or not self._start(request, backfilled=behind is not None):
                failed = failed or request
                self._explain(request, behind if frozen else None)

    def _start(self, request: Request, *, backfilled: bool) -> bool:
        shape = shape_of(request)
        if shape in self._no_room:
            return False
        fit = self._fleet.fit(request)
        if fit is None:
            self._no_room[shape] = Blocked(request)
            return False
        self._fleet.take(fit)
        if self._forecast is not None:
            self._forecast.take(fit)
        self._limits.started(request)
        self._outcome.begin(request, self._fleet, fit, backfilled=backfilled)
        return True

    def _explain(self, request: Request, behind: Behind | None) -> None:
        victims = self._make_room(request) if self._preemption else None
        shape = shape_of(request)
        self._outcome.wait(request, victims or behind or self._no_room[shape])

    def _make_room(self, request: Request) -> Victims | None:
        """Reserve what will be free, asking less important allocations to leave where needed."""
        shape = shape_of(request)
        if shape in self._hopeless:
            return None
        if self._forecast is None:
            self._forecast = self._look_ahead()
        reservation = self._forecast.reserve(request, self._order.rank[request.job_id])
        if reservation is None:
            # Later requests rank lower: they have fewer victims and less room.
            self._hopeless.add(shape)
            return None
        self._releasing = True
        for victim in reservation.victims:
            self._outcome.preempt.append(
                Preempt(victim.allocation_id, PreemptReason.HIGHER_PRIORITY)
            )
        for agent, _ in reservation.fit:
            self._fleet.hold(agent)
        return Victims(tuple(self._fleet.agents[agent].id for agent, _ in reservation.fit))

    def _look_ahead(self) -> Forecast:
        rank = self._order.rank
        leaving = [r for r in self._running if r.releasing and not r.preemptible]
        victims = [(rank[r.job_id], r) for r in self._running if r.preemptible]
        victims.sort(key=lambda v: (v[0], v[1].requested_at, v[1].allocation_id), reverse=True)
        return Forecast(self._fleet, leaving, victims)
