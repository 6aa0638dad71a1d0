"""The order of jobs and of what they ask for."""

from collections.abc import Mapping, Sequence
from itertools import islice
from operator import attrgetter, lt
from typing import TypeVar

from .model import Job, PoolSnapshot, Request, Running

Asking = TypeVar("Asking", Request, Running)

_position = attrgetter("job.position")
_in_line = attrgetter("job.position", "job.id", "requested_at", "allocation_id")
_priority = attrgetter("job.priority")
_in_turn = attrgetter("position", "id")
_by_priority = attrgetter("job", "requested_at", "allocation_id")


class QueueOrder:
    """Jobs by priority (where the scheduler knows any), then position, then id; in a job, the earliest request."""

    def __init__(self, snapshot: PoolSnapshot) -> None:
        self._has_priorities = snapshot.settings.scheduler == "priority"

    def arrange(self, requests: Sequence[Asking], jobs: list[Job]) -> Sequence[Asking]:
        """`jobs` are theirs, one by one."""
        if self._in_order(jobs):  # as rows come
            return requests
        # Numbers sort several times faster than rows of them, and seldom leave anything to decide.
        by_number = sorted(requests, key=_position)
        if self._has_priorities:
            by_number.sort(key=_priority)
        if self._in_order([r.job for r in by_number]):
            return by_number
        return sorted(requests, key=_by_priority if self._has_priorities else _in_line)

    def _in_order(self, jobs: list[Job]) -> bool:
        """Whether each comes after the one before."""
        if self._has_priorities:
            return all(map(lt, jobs, islice(jobs, 1, None)))
        positions = [job.position for job in jobs]
        return all(map(lt, positions, islice(positions, 1, None)))


def jobs_ahead(snapshot: PoolSnapshot) -> Mapping[str, int]:
    """How many jobs are before each in the queue; -1 where the scheduler keeps none."""
    asking: list[Request | Running] = [*snapshot.pending, *snapshot.running]
    jobs = {r.job.id: r.job for r in asking}.values()
    if snapshot.settings.scheduler == "fair_share":
        return {job.id: -1 for job in jobs}
    in_order = sorted(jobs, key=None if snapshot.settings.scheduler == "priority" else _in_turn)
    return {job.id: place for place, job in enumerate(in_order)}
