"""The order of jobs and of what they ask for."""

from collections import defaultdict
from collections.abc import Iterable
from operator import attrgetter, eq

from .model import Job, PoolSnapshot, Request

_id = attrgetter("id")
_position = attrgetter("position")
_request_time = attrgetter("requested_at", "allocation_id")


class QueueOrder:
    """Jobs by priority (where the scheduler knows any), then position, then id."""

    def __init__(self, snapshot: PoolSnapshot) -> None:
        levels = _by_priority(snapshot, snapshot.settings.default_priority)
        names: list[str] = []
        self.levels: list[tuple[int, int]] = []  # priority, the first place after it
        for priority in sorted(levels):
            names += [job.id for job in _sorted(levels[priority])]
            self.levels.append((priority, len(names)))
        self.place = dict(zip(names, range(len(names)), strict=True))

    def arrange(self, requests: Iterable[Request]) -> tuple[list[Request], list[int]]:
        """The requests in queue order and the places of their jobs."""
        unordered = list(requests)
        places = [self.place[r.job_id] for r in unordered]
        if len(set(places)) < len(places):
            unordered.sort(key=_request_time)
            places = [self.place[r.job_id] for r in unordered]
        order = sorted(range(len(places)), key=places.__getitem__)
        return [unordered[i] for i in order], [places[i] for i in order]


def _by_priority(snapshot: PoolSnapshot, default: int) -> dict[int, list[Job]]:
    if snapshot.settings.scheduler != "priority":
        return {default: list(snapshot.jobs)}
    levels: defaultdict[int, list[Job]] = defaultdict(list)
    for job in snapshot.jobs:
        priority = job.priority
        levels[default if priority is None else priority].append(job)
    return levels


def _sorted(jobs: list[Job]) -> list[Job]:
    jobs.sort(key=_position)
    positions = list(map(_position, jobs))
    if any(map(eq, positions, positions[1:])):
        jobs.sort(key=_id)
        jobs.sort(key=_position)
    return jobs
