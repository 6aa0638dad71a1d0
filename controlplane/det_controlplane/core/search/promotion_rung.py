"""A rung of promoting ASHA: its waiting trials, the best first."""

import heapq
import math
import sys
from collections.abc import Mapping, Set
from operator import itemgetter
from typing import Any

from .rung import pack, unpack

Waiting = tuple[float, int, str]  # loss, arrival, trial
_WORST: Waiting = (math.inf, sys.maxsize, "")
_FEW = 1024


class PromotionRung:
    """Count the trials that arrived and that were promoted, and keep the waiting trials.

    A small heap contains the next trials to promote. All other trials are in an unsorted list, which is only read when
    the heap is empty, because most trials of a long queue are never promoted."""

    __slots__ = ("_first_other", "_most_next", "_next", "_others", "arrived", "promoted")

    def __init__(self) -> None:
        self.arrived = 0
        self.promoted = 0
        self._next: list[Waiting] = []  # each is better than all others
        self._others: list[Waiting] = []
        self._first_other: Waiting = _WORST  # the best of the others
        self._most_next = _FEW

    def wait(self, entry: Waiting) -> None:
        if entry >= self._first_other:
            self._others.append(entry)
            return
        heapq.heappush(self._next, entry)
        if len(self._next) > self._most_next:
            self._divide(_sort_waiting(self._next), len(self._next) // 2)

    def pop(self) -> Waiting | None:
        """Remove and return the best entry."""
        if not self._next and self._others:
            waiting, self._others = _sort_waiting(self._others), []
            self._divide(waiting, -(-len(waiting) // 4))
        return heapq.heappop(self._next) if self._next else None

    def remove(self, request_id: str) -> None:
        """Remove a waiting trial. The cost is linear."""
        self._fill([entry for entry in self.in_order() if entry[2] != request_id])

    def clear(self) -> list[str]:
        """Remove and return all entries, the best first."""
        trials = [request_id for _, _, request_id in self.in_order()]
        self._fill([])
        return trials

    def in_order(self) -> list[Waiting]:
        return _sort_waiting(self._next + self._others)

    def snapshot(self, gone: Set[str]) -> dict[str, Any]:
        waiting = [entry for entry in self.in_order() if entry[2] not in gone]
        return {
            "arrived": self.arrived,
            "promoted": self.promoted,
            "losses": pack(loss for loss, _, _ in waiting),
            "trials": [[order, request_id] for _, order, request_id in waiting],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        self.arrived = state["arrived"]
        self.promoted = state["promoted"]
        losses = unpack(state["losses"])
        trials = zip(losses, state["trials"], strict=True)
        self._fill([(loss, order, request_id) for loss, (order, request_id) in trials])

    def _fill(self, waiting: list[Waiting]) -> None:
        self._others = []
        self._divide(waiting, len(waiting))

    def _divide(self, in_order: list[Waiting], count: int) -> None:
        """Divide sorted entries into the next ones and the others. A sorted list is a valid heap."""
        self._next, others = in_order[:count], in_order[count:]
        self._first_other = others[0] if others else _WORST
        self._others += others
        self._most_next = max(_FEW, 2 * count)


def _sort_waiting(waiting: list[Waiting]) -> list[Waiting]:
    """Sort by loss, then arrival. Two sorts by numbers take half the time of one sort by tuples."""
    by_arrival = sorted(waiting, key=itemgetter(1))
    by_arrival.sort(key=itemgetter(0))
    return by_arrival
