"""The order of jobs and of what they ask for."""

from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from operator import attrgetter, itemgetter
from typing import TypeVar

from .model import Job, PoolSnapshot, Request, Running

Asking = TypeVar("Asking", Request, Running)

_id = itemgetter(Job._fields.index("id"))
_priority = itemgetter(Job._fields.index("priority"))
_in_line = attrgetter("position", "id")
_request_time = attrgetter("requested_at", "allocation_id")


class QueueOrder:
    """Jobs by priority (where the scheduler knows any), then position, then id."""

    def __init__(self, snapshot: PoolSnapshot) -> None:
        self._jobs = _in_order(snapshot)
        self.place = dict(zip(map(_id, self._jobs), range(len(self._jobs)), strict=True))

    @cached_property
    def levels(self) -> list[tuple[int, int]]:
        """Each priority with the first place after it."""
        levels, end = [], 0
        while end < len(self._jobs):
            priority: int = _priority(self._jobs[end])
            end = bisect_right(self._jobs, priority, lo=end, key=_priority)
            levels.append((priority, end))
        return levels

    def arrange(self, requests: Sequence[Asking]) -> tuple[Sequence[Asking], list[int]]:
        """The requests in queue order and the places of their jobs."""
        place = self.place
        places = [place[r.job_id] for r in requests]
        in_order = sorted(places)
        if len(set(places)) < len(places):
            in_time = sorted(requests, key=_request_time)
            in_time.sort(key=lambda r: place[r.job_id])
            return in_time, in_order
        if places == in_order:  # as rows come
            return requests, places
        alone = dict(zip(places, requests, strict=True))
        return list(map(alone.__getitem__, in_order)), in_order


def _in_order(snapshot: PoolSnapshot) -> list[Job]:
    default, jobs = snapshot.settings.default_priority, snapshot.jobs
    if snapshot.settings.scheduler != "priority":
        return sorted(jobs, key=_in_line)
    if jobs and jobs[0].priority is not None:
        with suppress(TypeError):  # one without a priority among them: None compares with no number
            return sorted(jobs)
    return sorted(j if j.priority is not None else j._replace(priority=default) for j in jobs)
