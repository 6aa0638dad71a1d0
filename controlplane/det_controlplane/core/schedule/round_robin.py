"""Round robin: jobs take turns, one allocation a turn (facts §5.6)."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from .fleet import shape_of
from .model import Request
from .outcome import Blocked, Cause
from .pool_pass import PoolPass

Span = tuple[int, int]  # of a job's requests in the queue


def schedule_in_turns(pool: PoolPass) -> None:
    """Whoever holds the fewest allocations is first, so the rotation goes on where it stopped."""
    requests, places = pool.order.arrange(pool.snapshot.pending)
    held = Counter(running.job_id for running in pool.running)
    turns: defaultdict[int, list[Span]] = defaultdict(list)
    for span in _spans(places):
        turns[held.get(requests[span[0]].job_id, 0)].append(span)
    rounds = _Rounds(pool, requests)
    while turns:
        holds = min(turns)
        started = (rounds.start_one(span) for span in sorted(turns.pop(holds)))
        again = [span for span in started if span is not None]
        if again:
            turns[holds + 1] += again
    pool.outcome.queued.append((requests, rounds.causes, places))


def _spans(places: list[int]) -> Iterator[Span]:
    """Requests stand in the order of their jobs."""
    begin = 0
    for at in range(1, len(places) + 1):
        if at == len(places) or places[at] != places[begin]:
            yield begin, at
            begin = at


class _Rounds:
    def __init__(self, pool: PoolPass, requests: Sequence[Request]) -> None:
        self.causes: list[Cause | None] = [None] * len(requests)
        self._pool = pool
        self._requests = requests
        self._no_room: dict[object, Blocked] = {}

    def start_one(self, span: Span) -> Span | None:
        """The job's first request that fits starts, those before it wait; returns what is left of the span."""
        begin, end = span
        for at in range(begin, end):
            cause = self.causes[at] = self._try(self._requests[at])
            if cause is None:
                return (at + 1, end) if at + 1 < end else None
        return None

    def _try(self, request: Request) -> Cause | None:
        pool, shape = self._pool, shape_of(request)
        if pool.limits.limited and not pool.limits.allow(request):
            return pool.limits.cause(request.job_id)
        blocked = self._no_room.get(shape)
        if blocked is not None:
            return blocked
        fleet = pool.fleet_of(request)
        fit = fleet.fit(request)
        if fit is None:
            return self._no_room.setdefault(shape, Blocked(request))
        fleet.take(fit)
        if pool.limits.limited:
            pool.limits.started(request)
        pool.outcome.begin(request, fleet, fit)
        return None
