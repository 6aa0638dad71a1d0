"""Outages of the control plane, from seconds to a day.

It is down, it stalls and answers requests afterwards, or only its API is down while ticks continue."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Protocol

from tests.world.timeline import Timeline

_DAY_S = 86_400.0
# A stalled process keeps this many requests, as the queue of its listening socket does. Further requests fail.
_MOST_WAITING = 64
_LONGEST_API_OUTAGE_S = 1_200.0  # because ticks run every few seconds meanwhile
# Half of the lengths are short, as in reality.
_LENGTHS_S = (10.0, 30.0, 65.0, 75.0, 120.0, 600.0, 7_200.0, _DAY_S)


@dataclass(slots=True)
class Outage:
    began_at: float
    ends_at: float
    stalls: bool  # requests wait until its end, and processes keep their memory
    is_api_only: bool = False  # ticks and calls of clouds continue
    waiting: int = 0  # requests of a stall


class Host(Protocol):
    """The world in which outages happen."""

    timeline: Timeline
    calm: bool

    def lose_memories(self) -> None:
        """Restart the processes of the control plane, without their memory."""
        ...

    def answer_again(self, lasted_s: float) -> None:
        """Make the control plane answer requests again, after an outage of that length."""
        ...


class Outages:
    """An actor that stops or stalls the control plane for some time, in some of the worlds."""

    def __init__(
        self, host: Host, rng: Random, chaos_s: float, *, longest_s: float = _DAY_S
    ) -> None:
        self._host = host
        self._rng = rng
        self._chaos_s = chaos_s
        self._lengths_s = [length for length in _LENGTHS_S if length <= longest_s]
        self.now: Outage | None = None

    def begin(self) -> None:
        for _ in range(self._rng.choice((0, 0, 1, 1, 2))):
            self._host.timeline.after(self._rng.uniform(20, self._chaos_s - 10), self._start)

    def calm_down(self) -> None:
        return None

    def _start(self) -> None:
        if self.now is not None or self._host.calm:
            return
        length_s = self._rng.choice(self._lengths_s) * self._rng.uniform(0.9, 1.1)
        kind = self._rng.choice(("down", "down", "stall", "stall", "api"))
        if kind == "api":
            length_s = min(length_s, _LONGEST_API_OUTAGE_S)
        began_at = self._host.timeline.seconds
        self.now = Outage(began_at, began_at + length_s, kind == "stall", is_api_only=kind == "api")
        self._host.timeline.after(length_s, lambda: self._end(length_s))

    def _end(self, lasted_s: float) -> None:
        outage, self.now = self.now, None
        if outage is not None and not outage.stalls:
            self._host.lose_memories()
        self._host.answer_again(lasted_s)


def wait_for(outage: Outage | None, timeline: Timeline, act: Callable[[], None]) -> bool:
    """Schedule an action for the end of a stall; return False if the request fails."""
    if outage is None or not outage.stalls or outage.waiting == _MOST_WAITING:
        return False
    outage.waiting += 1
    timeline.after(outage.ends_at - timeline.seconds + 0.001, act)
    return True
