"""Sets of ids in the syntax of update requests: `1-3,7`."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from det_controlplane.core.numerals import whole

Ranges = Sequence[tuple[int, int]]
"""The first and last id of each range, ascending. Ranges do not touch each other."""

MOST = 10_000


class NotRanges(ValueError):
    """The text is not a set of ids."""


def parse(text: str) -> Ranges:
    """Parse ranges. Raises NotRanges."""
    ranges = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        low, high = whole(first), whole(last or first)
        if low is None or high is None or not 0 <= low <= high:
            raise NotRanges(f"{part[:40]!r} is no range of ids such as 3 or 5-9")
        ranges.append((low, high))
    if len(ranges) > MOST:
        raise NotRanges(f"more than {MOST} ranges of ids")
    return _merge_ranges(ranges)


def of(ids: Iterable[int]) -> Ranges:
    """Return the ranges that contain exactly these ids."""
    return _merge_ranges((id, id) for id in ids)


def _merge_ranges(ranges: Iterable[tuple[int, int]]) -> Ranges:
    result: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if result and low <= result[-1][1] + 1:
            result[-1] = result[-1][0], max(high, result[-1][1])
        else:
            result.append((low, high))
    return result


def without(ranges: Ranges, ids: Iterable[int]) -> Ranges:
    """Return the ranges without these ids."""
    sorted_ids = sorted(set(ids))
    remaining = []
    for low, high in ranges:
        for id in sorted_ids[bisect_left(sorted_ids, low) : bisect_left(sorted_ids, high + 1)]:
            if id > low:
                remaining.append((low, id - 1))
            low = id + 1
        if low <= high:
            remaining.append((low, high))
    return remaining


def shown(ranges: Ranges) -> str:
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)
