"""Run recurring work, such as the tick, when woken, at its next due time, and as a safety net."""

from collections.abc import Callable
from random import Random

from tests.world.processes import Done, Process
from tests.world.stage import Stage

_SAFETY_NET_S = 60.0
_SPACING_S = 0.2


class Rounds:
    label: str
    first_s: float

    def __init__(self, world: Stage, rng: Random) -> None:
        self._world = world
        self._rng = rng
        self._planned_s = float("inf")
        self._plans = 0

    def begin(self) -> None:
        self._plan(self.first_s)

    def calm_down(self) -> None:
        return None

    def wake(self) -> None:
        self._plan(self._rng.uniform(0.02, 0.5))

    def work(self, process: Process) -> Done:
        self._planned_s = float("inf")
        due_s, check = self._run(process)

        def served() -> None:
            check()
            wait_s = _SAFETY_NET_S if due_s is None else max(due_s, _SPACING_S)
            self._plan(min(wait_s, _SAFETY_NET_S))

        return Done("" if due_s is None else f"next in {due_s:.2f} s", served)

    def lost(self) -> None:
        if self._planned_s <= self._world.timeline.seconds:
            self._planned_s = float("inf")  # the tick was due, but no process ran it
        self._plan(self._rng.uniform(1.0, _SAFETY_NET_S))

    def _run(self, process: Process) -> tuple[float | None, Callable[[], None]]:
        """Return the seconds until the next due time, and the check of an uninterrupted round."""
        raise NotImplementedError

    def _plan(self, delay_s: float) -> None:
        """Plan a round; at most one is planned, an earlier one replaces it."""
        at = self._world.timeline.seconds + delay_s
        if at < self._planned_s:
            self._planned_s = at
            self._plans += 1
            plan = self._plans
            self._world.serve(self, delay_s, lambda: plan == self._plans)


class Ticking(Rounds):
    label = "tick"
    first_s = 1.0

    def _run(self, process: Process) -> tuple[float | None, Callable[[], None]]:
        start_time = process.ctx.now()
        return process.tick(), lambda: self._world.invariants.check_tick(start_time)
