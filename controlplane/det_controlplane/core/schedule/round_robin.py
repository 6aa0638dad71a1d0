"""Round robin: jobs take turns, one allocation a turn (docs/concepts/scheduling.md#round-robin)."""

from collections import Counter
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from itertools import groupby

from .model import Request
from .pool_pass import PoolPass
from .reasons import OverLimit


def schedule_in_turns(pool: PoolPass) -> None:
    """Serve the job with the fewest allocations first, so that the rotation continues in the next pass."""
    holds = Counter(running.job.id for running in pool.running)
    jobs = groupby(pool.requests, key=lambda request: request.job.id)
    turns = [
        (holds[job_id], place, iter(list(requests)))
        for place, (job_id, requests) in enumerate(jobs)
    ]
    heapify(turns)
    while turns:
        count, place, requests = heappop(turns)
        if _start_next(pool, requests):
            heappush(turns, (count + 1, place, requests))


def _start_next(pool: PoolPass, requests: Iterator[Request]) -> bool:
    """Start the first fitting request of a job. Requests before it wait."""
    for request in requests:
        if not pool.limits.allow(request):
            pool.waiting[request.allocation_id] = OverLimit(request)
        elif pool.start(request) is None:
            pool.waiting[request.allocation_id] = pool.no_room(request)
        else:
            return True
    return False
