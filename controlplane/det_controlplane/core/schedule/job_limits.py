"""`max_slots` of an experiment: how many slots its trials may hold together."""

from collections import Counter
from collections.abc import Iterable
from operator import attrgetter

from .model import PoolSnapshot, Request, Running


class JobLimits:
    def __init__(self, snapshot: PoolSnapshot) -> None:
        items: list[Request | Running] = [*snapshot.pending, *snapshot.running]
        self.limit = {
            job.id: job.max_slots for item in items if (job := item.job).max_slots is not None
        }
        # Slots of limited jobs, including the requests in `started`.
        self.held = dict.fromkeys(self.limit, 0)
        self._reserved = dict.fromkeys(self.limit, 0)
        for running in snapshot.running:
            if running.job.id in self.limit:
                self.held[running.job.id] += running.slots

    def allow(self, request: Request) -> bool:
        job_id = request.job.id
        if job_id not in self.limit or not request.slots:
            return True
        return self.held[job_id] + self._reserved[job_id] + request.slots <= self.limit[job_id]

    def started(self, request: Request) -> None:
        if request.job.id in self.limit:
            self.held[request.job.id] += request.slots

    def reserved(self, request: Request) -> None:
        """Count a request that starts after preemptions, so that its job preempts no more than its limit."""
        if request.job.id in self.limit:
            self._reserved[request.job.id] += request.slots

    def surplus(self, running: Iterable[Running]) -> list[Running]:
        """Return the allocations that have to leave after a limit was lowered, in the order given."""
        if not self.limit:
            return []
        staying = [r for r in running if not r.releasing and r.job.id in self.limit]
        holds = Counter[str]()
        for allocation in staying:
            holds[allocation.job.id] += allocation.slots
        victims: list[Running] = []
        for allocation in staying:
            job_id, may_leave = allocation.job.id, allocation.preemptible and allocation.slots > 0
            if may_leave and holds[job_id] > self.limit[job_id]:
                holds[job_id] -= allocation.slots
                victims.append(allocation)
        return victims


def oldest_first(running: Iterable[Running]) -> list[Running]:
    return sorted(running, key=attrgetter("requested_at", "allocation_id"))
