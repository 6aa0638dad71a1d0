"""Choose how many machines of each size hold some demand most cheaply."""

import math
from collections import Counter
from collections.abc import Mapping

# Demand beyond so many slots of a size goes to the size of machine with the best price a slot.
_EXACT_SLOTS = 64


def cheapest_cover(
    wanted: Mapping[int, int], prices: Mapping[int, float], spare: int = 0
) -> Counter[int] | None:
    """Return the number of machines of each size that hold the demand, which is given as counts by slots.
    Return None if a part of the demand fits on no size.

    Machines of at least n slots must have room for all demand of at least n slots. Where each size divides the next, as
    with GPUs, that is also enough. Elsewhere the caller tries again with spare room.
    """
    counts, rest = _bulk(wanted, prices)
    if rest is None:
        return None
    exact = _exact(rest, prices, spare)
    return None if exact is None else counts + exact


def _bulk(
    demand: Mapping[int, int], prices: Mapping[int, float]
) -> tuple[Counter[int], dict[int, int] | None]:
    counts: Counter[int] = Counter()
    rest = {}
    for slots, count in demand.items():
        fitting = [size for size in prices if size >= slots]
        if not fitting:
            return counts, None
        best = min(fitting, key=lambda size: (prices[size] / (size // slots), size))
        each = best // slots
        keep = max(_EXACT_SLOTS // slots, 2 * each)
        machines = max(0, (count - keep) // each)
        if machines:
            counts[best] += machines
        rest[slots] = count - machines * each
    return counts, rest


def _exact(
    demand: Mapping[int, int], prices: Mapping[int, float], spare: int
) -> Counter[int] | None:
    """Solve the knapsack: `best[c]` is the least price of c slots, machines added from the largest size down."""
    total = sum(slots * count for slots, count in demand.items())
    if not total:
        return Counter()
    total += spare
    best = [0.0] + [math.inf] * total
    steps: list[
        dict[int, int]
    ] = []  # by stage: where a capacity came from, by one machine of its size
    sizes = sorted((size for size in prices if size), reverse=True)
    for size, smaller in zip(sizes, [*sizes[1:], 0], strict=True):
        steps.append(_add_machines(best, size, prices[size]))
        capacity = sum(slots * count for slots, count in demand.items() if slots > smaller)
        capacity += spare if capacity else 0
        best[:capacity] = [math.inf] * len(best[:capacity])
    return None if math.isinf(best[total]) else _chosen(steps, sizes, total)


def _add_machines(best: list[float], size: int, price: float) -> dict[int, int]:
    total = len(best) - 1
    came_from = {}
    for capacity in range(total):
        more = min(total, capacity + size)
        if best[capacity] + price < best[more]:
            best[more] = best[capacity] + price
            came_from[more] = capacity
    return came_from


def _chosen(steps: list[dict[int, int]], sizes: list[int], total: int) -> Counter[int]:
    counts: Counter[int] = Counter()
    capacity = total
    for size, came_from in zip(reversed(sizes), reversed(steps), strict=True):
        while capacity in came_from:
            capacity = came_from[capacity]
            counts[size] += 1
    return counts
