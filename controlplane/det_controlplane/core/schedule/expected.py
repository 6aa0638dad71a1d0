"""Tell when jobs that wait may start, from how far the work before them has come."""

from collections.abc import Iterable
from dataclasses import dataclass

from .model import PoolSettings

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


def can_expect_starts(settings: PoolSettings, max_slots_per_launch: int | None) -> bool:
    """Return whether a pool gives estimates. Pools that rent machines, preempt or have no order do not."""
    has_order = settings.scheduler != "fair_share"
    return has_order and not settings.preemption and max_slots_per_launch is None


def expected_starts(
    free: int,
    running: Iterable[tuple[JobProgress, int]],
    waiting: Iterable[tuple[str, int]],
) -> dict[str, float]:
    """Return the expected seconds until each waiting job starts, by id. Jobs without an estimate are absent.

    `free` slots and the slots of `running` jobs count as one heap. Each `waiting` job comes with the slots that it and
    all waiting jobs ahead of it need, the fewest first."""
    ends = [(progress.left_s(), slots) for progress, slots in running]
    coming = iter(sorted((left_s, slots) for left_s, slots in ends if left_s is not None))
    starts: dict[str, float] = {}
    now = 0.0
    for job_id, needed in waiting:
        while free < needed:
            end = next(coming, None)
            if end is None:
                return starts
            now, free = end[0], free + end[1]
        # A job that could start at once waits for something other than slots.
        if now > 0:
            starts[job_id] = now
    return starts
