"""Round robin: jobs take turns, one allocation a turn (facts §5.6)."""

from collections import Counter, deque
from heapq import heapify, heappop, heappush

from .fleet import shape_of
from .model import Request
from .outcome import Blocked, Cause
from .pool_pass import PoolPass


def schedule_in_turns(pool: PoolPass) -> None:
    """Whoever holds the fewest allocations is first, so the rotation goes on where it stopped."""
    queues: dict[str, deque[Request]] = {}
    for request in pool.order.arrange(pool.snapshot.pending)[0]:
        queues.setdefault(request.job_id, deque()).append(request)
    held = Counter(running.job_id for running in pool.running)
    turns = [(held[job_id], pool.order.place[job_id], job_id) for job_id in queues]
    heapify(turns)
    rounds = _Rounds(pool)
    while turns:
        holds, rank, job_id = heappop(turns)
        if rounds.start_one(queues[job_id]):
            heappush(turns, (holds + 1, rank, job_id))


class _Rounds:
    def __init__(self, pool: PoolPass) -> None:
        self._pool = pool
        self._no_room: dict[object, Blocked] = {}

    def start_one(self, queue: deque[Request]) -> bool:
        """The job's first request that fits; those before it wait."""
        while queue:
            if self._try(queue.popleft()):
                return True
        return False

    def _try(self, request: Request) -> bool:
        pool, shape = self._pool, shape_of(request)
        if not pool.limits.allow(request):
            self._wait(request, pool.limits.cause(request.job_id))
            return False
        fit = None if shape in self._no_room else pool.fleet_of(request).fit(request)
        if fit is None:
            self._wait(request, self._no_room.setdefault(shape, Blocked(request)))
            return False
        pool.fleet_of(request).take(fit)
        pool.limits.started(request)
        pool.outcome.begin(request, pool.fleet_of(request), fit)
        return True

    def _wait(self, request: Request, cause: Cause) -> None:
        place = self._pool.order.place[request.job_id]
        self._pool.outcome.wait(request, cause, place)
