"""Find ranks that are slower than the others, from each rank's own time per step.

In data-parallel training all ranks have the same step time, because the fast ones wait for the slow one in the
exchange of gradients. So a rank reports its own time: the time in which it does not wait for other ranks.
"""

import dataclasses
import math
import statistics
from typing import Dict, List, Optional, Sequence, Tuple

# A rank is named if it is slow in three of the last four windows, which takes 60 to 100 steps, and if it was not fast
# for three windows in a row since it became slow. Short steps need this time too: another program that uses a core for
# some seconds slows many windows.
LEAST_SLOW_S = 30.0
WINDOW_STEPS = 20
_SLOW_WINDOWS, _LAST_WINDOWS = 3, 4
_WINDOWS_TO_RECOVER = 3
# A rank is slow if it needs so much more time than the others, and more than the noise and a millisecond.
_LEAST_EXCESS = 0.10
_LEAST_EXCESS_S = 0.001
_NOISE_FACTOR = 2.0
# A step that is longer than this many medians counts as so many: one pause must not look like a slow rank.
_LONGEST_STEP = 2.0

# The own time of a rank in one window: seconds per step, their standard error, and the part that waited for data.
Window = Tuple[float, float, float]


@dataclasses.dataclass(frozen=True)
class Straggler:
    """A rank that became slow, is still slow, or recovered."""

    rank: int
    slowdown: float  # 0.2: it needs 20 % more time than the median of the other ranks
    own_s: float
    median_s: float
    cause: str  # "data" or "compute": the part with the greater excess
    recovered: bool = False


def summarize(own: Sequence[float], data: Sequence[float]) -> Window:
    """Return the window of some steps. Very long steps are cut, so that one pause does not decide.

    Every rank calls this while it trains. The exact fractions of `statistics` would take ten times as long.
    """
    count = len(own)
    limit = _LONGEST_STEP * sorted(own)[count // 2]
    cut = [seconds if seconds < limit else limit for seconds in own]
    mean = sum(cut) / count
    squares = sum([(seconds - mean) ** 2 for seconds in cut])
    error = math.sqrt(squares / (count - 1) / count) if count > 1 else 0.0
    return mean, error, sum([s if s < limit else limit for s in data]) / count


class StragglerDetector:
    """Compares the windows of all ranks. It only decides, and reads no clock."""

    def __init__(self, least_slow_s: float = LEAST_SLOW_S) -> None:
        self._least_slow_s = least_slow_s
        self._slow_since: Dict[int, float] = {}
        self._last: Dict[int, List[Optional[Straggler]]] = {}  # None: a window that was not slow
        self._fast_windows: Dict[int, int] = {}
        self._named: Dict[int, Straggler] = {}

    @property
    def slow_ranks(self) -> List[Straggler]:
        """Return the named ranks with their newest times."""
        return list(self._named.values())

    def observe(self, windows: Sequence[Window], now: float) -> List[Straggler]:
        """Add one window of each rank, which ends `now`.

        Return the ranks that became slow, and the ranks that recovered."""
        changes = []
        for rank in range(len(windows)):
            straggler = _compare(rank, windows)
            if straggler is None:
                change = self._was_fast(rank)
            else:
                change = self._was_slow(straggler, now)
            if change is not None:
                changes.append(change)
        return changes

    def _was_slow(self, straggler: Straggler, now: float) -> Optional[Straggler]:
        rank = straggler.rank
        self._fast_windows[rank] = 0
        slow_s = now - self._slow_since.setdefault(rank, now)
        windows = [window for window in self._add(rank, straggler) if window is not None]
        is_new = rank not in self._named
        if is_new and (len(windows) < _SLOW_WINDOWS or slow_s < self._least_slow_s):
            return None
        self._named[rank] = _mean(windows)
        return self._named[rank] if is_new else None

    def _add(self, rank: int, window: Optional[Straggler]) -> List[Optional[Straggler]]:
        self._last[rank] = [*self._last.get(rank, []), window][-_LAST_WINDOWS:]
        return self._last[rank]

    def _was_fast(self, rank: int) -> Optional[Straggler]:
        self._add(rank, None)
        count = self._fast_windows[rank] = self._fast_windows.get(rank, 0) + 1
        if count < _WINDOWS_TO_RECOVER:
            return None
        self._slow_since.pop(rank, None)
        if rank not in self._named:
            return None
        return dataclasses.replace(self._named.pop(rank), recovered=True)


def _mean(windows: Sequence[Straggler]) -> Straggler:
    own_s = statistics.fmean(window.own_s for window in windows)
    median_s = statistics.fmean(window.median_s for window in windows)
    slowdown = own_s / median_s - 1
    return dataclasses.replace(windows[-1], slowdown=slowdown, own_s=own_s, median_s=median_s)


def _compare(rank: int, windows: Sequence[Window]) -> Optional[Straggler]:
    """Return the rank as a straggler if it is slower than the median of the other ranks."""
    own_s, error, data_s = windows[rank]
    others = [window for other, window in enumerate(windows) if other != rank]
    median_s = statistics.median(mean for mean, _, _ in others)
    noise = _NOISE_FACTOR * math.hypot(error, statistics.median(e for _, e, _ in others))
    excess = own_s - median_s
    if median_s <= 0 or excess <= max(_LEAST_EXCESS * median_s, _LEAST_EXCESS_S, noise):
        return None
    waits_for_data = data_s - statistics.median(data for _, _, data in others)
    cause = "data" if waits_for_data > excess / 2 else "compute"
    return Straggler(rank, excess / median_s, own_s, median_s, cause)
