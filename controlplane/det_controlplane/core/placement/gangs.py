"""Rules for gangs, which are fits over several agents.

A gang stays within one place, a region of one cloud, because private addresses of two places do not reach each other.
Agents that no cloud rents have no place; together they count as one place.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from .model import Fit

Item = TypeVar("Item")


def first_together(
    items: Iterable[Item], count: int, place_of: Callable[[Item], str]
) -> list[Item]:
    """Return the first `count` items that share a place, or an empty list if no place has so many."""
    groups: defaultdict[str, list[Item]] = defaultdict(list)
    for item in items:
        group = groups[place_of(item)]
        group.append(item)
        if len(group) == count:
            return group
    return []


def by_place(items: Iterable[Item], place_of: Callable[[Item], str]) -> Sequence[list[Item]]:
    """Group items by place. Items keep their order; the place of the first item comes first."""
    groups: defaultdict[str, list[Item]] = defaultdict(list)
    for item in items:
        groups[place_of(item)].append(item)
    return list(groups.values())


def mix_sizes(agents: Fit, slots: int) -> Fit | None:
    """Return agents of several sizes with exactly so many slots, or None.

    `agents` are in the order of their sizes, the biggest first. All of them are used whole except perhaps the last.
    """
    fit: Fit = []
    larger: Fit = []
    for agent, size in agents:
        if size <= slots:
            fit.append((agent, size))
            slots -= size
        else:
            larger.append((agent, size))
        if not slots:
            return fit
    # Every skipped agent has more slots than are missing. The smallest one wastes the least.
    return [*fit, (larger[-1][0], slots)] if larger else None


def prefix_with(slots: int, sizes: Iterable[int]) -> int | None:
    """Return how many of these sizes, counted from the first, add up to so many slots; None if all are too few."""
    if slots <= 0:
        return 0
    for count, size in enumerate(sizes, start=1):
        slots -= size
        if slots <= 0:
            return count
    return None
