"""The tick, as its hosts call it: when woken, at its next due time, and as a safety net."""

from random import Random

from det_controlplane.testing.world.processes import Done, Process
from det_controlplane.testing.world.stage import Stage

_SAFETY_NET_S = 60.0
_SPACING_S = 0.2


class Ticking:
    label = "tick"

    def __init__(self, world: Stage, rng: Random) -> None:
        self._world = world
        self._rng = rng
        self._planned_s = float("inf")
        self._plans = 0

    def begin(self) -> None:
        self._plan(1.0)

    def wake(self) -> None:
        self._plan(self._rng.uniform(0.02, 0.5))

    def work(self, process: Process) -> Done:
        self._planned_s = float("inf")
        began = self._world.timeline.now()
        due_s = process.tick()

        def served() -> None:
            self._world.invariants.check_tick(began)
            wanted = _SAFETY_NET_S if due_s is None else max(due_s, _SPACING_S)
            self._plan(min(wanted, _SAFETY_NET_S))

        return Done("" if due_s is None else f"next in {due_s:.2f} s", served)

    def lost(self) -> None:
        self._plan(self._rng.uniform(1.0, _SAFETY_NET_S))

    def _plan(self, delay_s: float) -> None:
        """At most one tick is planned; an earlier one replaces it."""
        at = self._world.timeline.seconds + delay_s
        if at < self._planned_s:
            self._planned_s = at
            self._plans += 1
            plan = self._plans
            self._world.serve(self, delay_s, lambda: plan == self._plans)
