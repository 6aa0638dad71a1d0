"""Round robin: jobs take turns, one allocation a turn (facts §5.6)."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from .attempts import Attempts
from .model import Request
from .outcome import Cause
from .pool_pass import PoolPass

Span = tuple[int, int]  # of a job's requests in the queue


def schedule_in_turns(pool: PoolPass) -> None:
    """Whoever holds the fewest allocations is first, so the rotation goes on where it stopped."""
    requests = pool.requests
    held = Counter(running.job.id for running in pool.running)
    turns: defaultdict[int, list[Span]] = defaultdict(list)
    for span in _spans(requests):
        turns[held.get(requests[span[0]].job.id, 0)].append(span)
    rounds = _Rounds(pool, requests)
    while turns:
        holds = min(turns)
        started = (rounds.start_one(span) for span in sorted(turns.pop(holds)))
        again = [span for span in started if span is not None]
        if again:
            turns[holds + 1] += again
    pool.outcome.queued.append((requests, rounds.causes))


def _spans(requests: Sequence[Request]) -> Iterator[Span]:
    """Requests stand in the order of their jobs."""
    ids, begin = [r.job.id for r in requests], 0
    for at in range(1, len(ids) + 1):
        if at == len(ids) or ids[at] != ids[begin]:
            yield begin, at
            begin = at


class _Rounds:
    def __init__(self, pool: PoolPass, requests: Sequence[Request]) -> None:
        self.causes: list[Cause | None] = [None] * len(requests)
        self._attempts = Attempts(pool)
        self._limited = bool(pool.limits.limited)
        self._requests = requests

    def start_one(self, span: Span) -> Span | None:
        """The job's first request that fits starts, those before it wait; returns what is left of the span."""
        begin, end = span
        for at in range(begin, end):
            request = self._requests[at]
            over = self._attempts.over_limit(request) if self._limited else None
            cause = self.causes[at] = over or self._attempts.start(request)
            if cause is None:
                return (at + 1, end) if at + 1 < end else None
        return None
