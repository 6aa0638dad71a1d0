"""Starting requests one after the other, where no priority has to be left room for."""

from .fleet import shape_of
from .model import Request
from .outcome import Blocked, Cause, OverLimit
from .pool_pass import PoolPass


class Attempts:
    def __init__(self, pool: PoolPass) -> None:
        self._pool = pool
        self._no_room: dict[object, Blocked] = {}
        pool.outcome.unexplained = True

    def over_limit(self, request: Request) -> OverLimit | None:
        limits = self._pool.limits
        if limits.limited and not limits.allow(request):
            return limits.cause(request)
        return None

    def start(self, request: Request) -> Cause | None:
        """None if it starts, else why not. Of each shape one attempt fails: nothing becomes free within a pass."""
        plain = not (request.single_agent or request.blocked_agents)
        shape = request.slots if plain else shape_of(request)
        if shape in self._no_room:
            return self._no_room[shape]
        fleet = self._pool.fleet_of(request)
        fit = fleet.fit(request)
        if fit is None:
            return self._no_room.setdefault(shape, Blocked(request))
        fleet.take(fit)
        if self._pool.limits.limited:
            self._pool.limits.started(request)
        self._pool.outcome.begin(request, fleet, fit)
        return None
