"""`max_slots` of an experiment: how many slots its trials may hold together."""

from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property

from .model import Job, Request, Running
from .outcome import OverLimit


class JobLimits:
    def __init__(self, waiting: list[Job], running: Sequence[Running]) -> None:
        jobs = waiting + [r.job for r in running]
        self.limited = {job.id: job.max_slots for job in jobs if job.max_slots is not None}
        self._causes: dict[tuple[str, int], OverLimit] = {}
        self._reserved: defaultdict[str, int] = defaultdict(int)
        self._running = running

    @cached_property
    def held(self) -> defaultdict[str, int]:
        """Slots by job, with those of what `started`."""
        held: defaultdict[str, int] = defaultdict(int)
        for allocation in self._running:
            held[allocation.job.id] += allocation.slots
        return held

    def allow(self, request: Request) -> bool:
        limit = self.limited.get(request.job.id)
        if limit is None or not request.slots:
            return True
        spoken_for = self.held[request.job.id] + self._reserved[request.job.id]
        return spoken_for + request.slots <= limit

    def started(self, request: Request) -> None:
        self.held[request.job.id] += request.slots

    def reserved(self, request: Request) -> None:
        """It will start when others have left; until then its job asks nobody else to leave for more."""
        self._reserved[request.job.id] += request.slots

    def cause(self, request: Request) -> OverLimit:
        key = (request.job.id, request.slots)
        if key not in self._causes:
            self._causes[key] = OverLimit(request)
        return self._causes[key]

    def surplus(self, running: Sequence[Running]) -> list[Running]:
        """What has to leave after a limit was lowered, the newest first."""
        if not self.limited:
            return []
        staying: defaultdict[str, int] = defaultdict(int)
        for allocation in running:
            if not allocation.releasing:
                staying[allocation.job.id] += allocation.slots
        over = {job for job, slots in staying.items() if slots > self.limited.get(job, slots)}
        candidates = [r for r in running if r.job.id in over and _can_be_asked(r)]
        leaving: list[Running] = []
        for allocation in sorted(candidates, key=_newest_first, reverse=True):
            if staying[allocation.job.id] > self.limited[allocation.job.id]:
                staying[allocation.job.id] -= allocation.slots
                leaving.append(allocation)
        return leaving


def _can_be_asked(running: Running) -> bool:
    return running.preemptible and not running.releasing and running.slots > 0


def _newest_first(running: Running) -> tuple[float, str]:
    return (running.requested_at, running.allocation_id)
