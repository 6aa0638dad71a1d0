"""Tell when jobs that wait may start, from how far the work before them has come."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .model import PoolSnapshot
from .queue_order import in_queue_order

# Less progress says too little of the rest.
_LEAST_PROGRESS = 0.02


@dataclass(frozen=True, slots=True)
class JobProgress:
    """The progress of a running job, and the time that it took."""

    progress: float
    elapsed_s: float

    def left_s(self) -> float | None:
        """Return how long the rest takes at the same pace; None where the progress says too little."""
        if self.progress < _LEAST_PROGRESS:
            return None
        return self.elapsed_s * (1 - min(self.progress, 1)) / self.progress


def expected_starts(
    snapshot: PoolSnapshot, advances: Mapping[str, JobProgress]
) -> dict[str, float]:
    """Return the expected seconds until each waiting job starts, by id. Jobs without an estimate are absent.

    Slots count as one heap, jobs take them in queue order, and started jobs keep theirs. Pools that rent machines,
    preempt or have no order get no estimate."""
    settings = snapshot.settings
    if (
        settings.preemption
        or settings.scheduler == "fair_share"
        or snapshot.max_slots_per_launch is not None
    ):
        return {}
    free = sum(a.slots - a.used for a in snapshot.agents if a.is_open)
    needs: dict[str, int] = {}
    for request in in_queue_order(snapshot.pending, settings):
        needs.setdefault(request.job.id, request.slots)
    running = {r.job.id for r in snapshot.running}
    waiting = [(job_id, slots) for job_id, slots in needs.items() if job_id not in running]
    return _starts(free, _freed(snapshot, advances), waiting)


def _freed(snapshot: PoolSnapshot, advances: Mapping[str, JobProgress]) -> list[tuple[float, int]]:
    """Return when running jobs end, with the slots that they hold, the first to end first."""
    slots_by_job: dict[str, int] = {}
    for running in snapshot.running:
        slots_by_job[running.job.id] = slots_by_job.get(running.job.id, 0) + running.slots
    ends = [
        (advances[job_id].left_s(), slots)
        for job_id, slots in slots_by_job.items()
        if job_id in advances
    ]
    return sorted((left_s, slots) for left_s, slots in ends if left_s is not None)


def _starts(
    free: int, ends: list[tuple[float, int]], waiting: Iterable[tuple[str, int]]
) -> dict[str, float]:
    starts: dict[str, float] = {}
    now, coming = 0.0, iter(ends)
    for job_id, slots in waiting:
        while free < slots:
            end = next(coming, None)
            if end is None:
                return starts
            now, free = end[0], free + end[1]
        free -= slots
        # A job that could start at once waits for something other than slots.
        if now > 0:
            starts[job_id] = now
    return starts
