"""The order of jobs and of what they ask for."""

from collections.abc import Iterable
from decimal import Decimal

from .model import PoolSnapshot, Request


class QueueOrder:
    """Jobs by priority (where the scheduler knows any), then position.

    Jobs with equal priority and position share a rank.
    """

    def __init__(self, snapshot: PoolSnapshot) -> None:
        settings = snapshot.settings
        self._ordered_by_priority = settings.scheduler == "priority"
        self._shows_places = settings.scheduler != "fair_share"
        self.jobs = {job.id: job for job in snapshot.jobs}
        self.priority = {
            job.id: settings.default_priority if job.priority is None else job.priority
            for job in snapshot.jobs
        }
        self.rank: dict[str, int] = {}
        self.ordered = self._sorted()

    def requests(self, pending: Iterable[Request]) -> list[Request]:
        rank = self.rank
        keyed = [(rank[r.job_id], r.requested_at, r.allocation_id, r) for r in pending]
        keyed.sort()
        return [entry[3] for entry in keyed]

    def jobs_ahead(self, snapshot: PoolSnapshot) -> dict[str, int]:
        """For each job with a live allocation, how many such jobs come before it."""
        live = {r.job_id for r in snapshot.pending}
        live.update(r.job_id for r in snapshot.running)
        if not self._shows_places:
            return dict.fromkeys(sorted(live), -1)
        in_order = (job_id for job_id in self.ordered if job_id in live)
        return {job_id: ahead for ahead, job_id in enumerate(in_order)}

    def _sorted(self) -> list[str]:
        keys: list[tuple[int, Decimal | int, str]] = [
            (self.priority[id] if self._ordered_by_priority else 0, job.position, id)
            for id, job in self.jobs.items()
        ]
        keys.sort()
        rank, before = -1, None
        for priority, position, job_id in keys:
            if (priority, position) != before:
                rank, before = rank + 1, (priority, position)
            self.rank[job_id] = rank
        return [key[2] for key in keys]
