"""The choice of objects that leave a cache of data sets: the least recently used ones, never one in use."""

from collections.abc import Iterable
from typing import NamedTuple


class CachedObject(NamedTuple):
    name: str
    size: int
    used_at: float  # when a task that reads it started last
    in_use: bool  # by a running task


def make_room(objects: Iterable[CachedObject], needed: int, capacity: int) -> list[str] | None:
    """Return the objects to delete so that `needed` bytes fit, or None if objects in use leave too little room."""
    objects = list(objects)
    missing = sum(one.size for one in objects) + needed - capacity
    if missing <= 0:
        return []
    idle = sorted(
        (one for one in objects if not one.in_use), key=lambda one: (one.used_at, -one.size)
    )
    leaving: list[str] = []
    for one in idle:
        leaving.append(one.name)
        missing -= one.size
        if missing <= 0:
            return leaving
    return None
