"""Gangs stay within one place, a region of one cloud: private addresses of two places do not meet.

Agents that no cloud rents have no place; together they are one.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def first_together(
    items: Iterable[Item], count: int, place_of: Callable[[Item], str]
) -> list[Item]:
    """Return the first so many items that share a place; nothing where no place has so many."""
    found: defaultdict[str, list[Item]] = defaultdict(list)
    for item in items:
        together = found[place_of(item)]
        together.append(item)
        if len(together) == count:
            return together
    return []


def by_place(items: Iterable[Item], place_of: Callable[[Item], str]) -> Sequence[list[Item]]:
    """Return the items of each place in their order, the place of the first item first."""
    found: defaultdict[str, list[Item]] = defaultdict(list)
    for item in items:
        found[place_of(item)].append(item)
    return list(found.values())
