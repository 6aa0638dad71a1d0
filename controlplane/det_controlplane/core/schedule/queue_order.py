"""The order of jobs and of what they ask for."""

from collections import defaultdict
from collections.abc import Sequence
from operator import attrgetter, eq

from .model import Job, PoolSnapshot, Request

_id = attrgetter("id")
_exact_order = attrgetter("position", "id")
_position = attrgetter("position")
_job_id = attrgetter("job_id")
_request_time = attrgetter("requested_at", "allocation_id")


class QueueOrder:
    """Jobs by priority (where the scheduler knows any), then position, then id."""

    def __init__(self, snapshot: PoolSnapshot) -> None:
        levels = _by_priority(snapshot, snapshot.settings.default_priority)
        names: list[str] = []
        self.levels: list[tuple[int, int]] = []  # priority, the first place after it
        for priority in sorted(levels):
            names += map(_id, _sorted(levels[priority]))
            self.levels.append((priority, len(names)))
        self.place = dict(zip(names, range(len(names)), strict=True))

    def arrange(self, requests: Sequence[Request]) -> tuple[list[Request], list[int]]:
        """The requests in queue order and the places of their jobs."""
        places = list(map(self.place.__getitem__, map(_job_id, requests)))
        alone = dict(zip(places, requests, strict=True))
        if len(alone) == len(requests):
            places = sorted(alone)
            return list(map(alone.__getitem__, places)), places
        in_time = sorted(requests, key=_request_time)
        in_time.sort(key=lambda r: self.place[r.job_id])
        return in_time, sorted(places)


def _by_priority(snapshot: PoolSnapshot, default: int) -> dict[int, list[Job]]:
    if snapshot.settings.scheduler != "priority":
        return {default: list(snapshot.jobs)}
    levels: defaultdict[int | None, list[Job]] = defaultdict(list)
    for job in snapshot.jobs:
        levels[job.priority].append(job)
    unset = levels.pop(None, [])
    found = {priority: jobs for priority, jobs in levels.items() if priority is not None}
    return {**found, default: found.get(default, []) + unset} if unset else found


def _sorted(jobs: list[Job]) -> list[Job]:
    jobs.sort(key=_position)
    positions = list(map(_position, jobs))
    if any(map(eq, positions, positions[1:])):
        jobs.sort(key=_exact_order)
    return jobs
