"""Sets of ids as clients of updates write them: `1-3,7`."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from det_controlplane.core.numerals import whole

Ranges = Sequence[tuple[int, int]]
"""First and last id of each range, in order and apart from each other."""

MOST = 10_000


class NotRanges(ValueError):
    """A text that names no set of ids."""


def parse(text: str) -> Ranges:
    """Read ranges; raises NotRanges."""
    found = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        low, high = whole(first), whole(last or first)
        if low is None or high is None or not 0 <= low <= high:
            raise NotRanges(f"{part[:40]!r} is no range of ids such as 3 or 5-9")
        found.append((low, high))
    if len(found) > MOST:
        raise NotRanges(f"more than {MOST} ranges of ids")
    return _joined(found)


def of(ids: Iterable[int]) -> Ranges:
    """Return single ids as ranges."""
    return _joined((id, id) for id in ids)


def _joined(ranges: Iterable[tuple[int, int]]) -> Ranges:
    joined: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if joined and low <= joined[-1][1] + 1:
            joined[-1] = joined[-1][0], max(high, joined[-1][1])
        else:
            joined.append((low, high))
    return joined


def without(ranges: Ranges, ids: Iterable[int]) -> Ranges:
    """Return ranges without some ids."""
    taken = sorted(set(ids))
    left = []
    for low, high in ranges:
        for id in taken[bisect_left(taken, low) : bisect_left(taken, high + 1)]:
            if id > low:
                left.append((low, id - 1))
            low = id + 1
        if low <= high:
            left.append((low, high))
    return left


def shown(ranges: Ranges) -> str:
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)
