"""The time that a checkpoint takes, compared with the time that a preemption leaves."""

import logging
import time
from dataclasses import dataclass
from typing import Callable, Dict, Optional

logger = logging.getLogger("determined.core")

_MIB = 1024 * 1024


@dataclass(frozen=True)
class Stored:
    """A complete checkpoint of this run: its step, its size, and the time from its first file to its report."""

    storage_id: str
    step: object
    size: int
    seconds: float

    def __str__(self) -> str:
        mib = self.size / _MIB
        return f"{self.seconds:.1f} s ({mib:.1f} MiB at {mib / max(self.seconds, 1e-3):.1f} MiB/s)"


class StoreTimes:
    """The last complete and the unfinished checkpoints of this run. The chief measures them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begun: Dict[str, float] = {}  # of unfinished checkpoints, the oldest one first
        self.last: Optional[Stored] = None
        # Until the end of a preempted run. None: it is not preempted, or nobody set a time.
        self.seconds_left: Callable[[], Optional[float]] = lambda: None

    def begin(self, storage_id: str) -> None:
        """Note the begin of a checkpoint. In a preempted run, log whether the time suffices for it."""
        self._begun[storage_id] = self._clock()
        left_s = self.seconds_left()
        if left_s is None:
            return
        if self.last is None:
            logger.info("this run ends in %.0f s, and its first checkpoint is being stored", left_s)
        elif self.last.seconds <= left_s:
            logger.info("this run ends in %.0f s; a checkpoint took %s", left_s, self.last)
        else:
            logger.warning(
                "this run ends in %.0f s, but a checkpoint took %s: it will hardly be complete, and the trial then "
                "continues from checkpoint %s of step %s",
                left_s,
                self.last,
                self.last.storage_id,
                self.last.step,
            )

    def end(self, storage_id: str, size: int, step: object) -> None:
        """Note that a checkpoint is complete."""
        begun = self._begun.pop(storage_id, None)
        if begun is not None:
            self.last = Stored(storage_id, step, size, self._clock() - begun)

    def forget(self, storage_id: str) -> None:
        """Note that a checkpoint failed."""
        self._begun.pop(storage_id, None)

    def has_no_time_for_another(self) -> bool:
        """Return whether the run ends before the unfinished checkpoints and one more could be stored. Log it then."""
        left_s, begun = self.seconds_left(), dict(self._begun)
        if left_s is None or not begun:
            return False
        storage_id = next(iter(begun))
        spent_s = self._clock() - begun[storage_id]
        needed_s = max(spent_s, self.last.seconds if self.last else 0.0)
        if (len(begun) + 1) * needed_s - spent_s <= left_s:
            return False
        took = f"a checkpoint took {self.last}" if self.last else "its first one is not complete"
        logger.warning(
            "this run ends in %.0f s, and checkpoint %s has been stored for %.1f s (%s): there is no time for another, "
            "so the trial waits for this one and continues from it",
            left_s,
            storage_id,
            spent_s,
            took,
        )
        return True
