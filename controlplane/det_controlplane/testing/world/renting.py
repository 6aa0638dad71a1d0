"""Clouds as processes of the control plane call them, and the pass that calls them, as its hosts run it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any, TypeVar
from unittest.mock import patch

from det_controlplane.core.provision.prices import Wanted
from det_controlplane.ports.compute import (
    CloudMachine,
    LaunchOutcome,
    LaunchRequest,
    Place,
    Refusal,
)
from det_controlplane.ports.market import Told
from det_controlplane.services.machines import calling
from det_controlplane.testing.fakecloud import FakeCloud
from det_controlplane.testing.fakemarket import FakeMarket
from det_controlplane.testing.world.faults import Points
from det_controlplane.testing.world.processes import Done, Process
from det_controlplane.testing.world.stage import Stage

_SAFETY_NET_S = 60.0
_SPACING_S = 0.2

Argument = TypeVar("Argument")
Answer = TypeVar("Answer")


class WatchedCloud:
    """Implements `Compute`: a process may die, or be overtaken, on either side of each call."""

    def __init__(self, cloud: FakeCloud, points: Points) -> None:
        self.provider = cloud.provider
        self._cloud = cloud
        self._points = points

    def launch(self, request: LaunchRequest) -> LaunchOutcome:
        return self._call(lambda: self._cloud.launch(request))

    def terminate(self, machines: Sequence[CloudMachine]) -> Sequence[Refusal]:
        return self._call(lambda: self._cloud.terminate(machines))

    def owned(self, cluster_id: str, place: Place) -> Sequence[CloudMachine]:
        return self._call(lambda: self._cloud.owned(cluster_id, place))

    def console(self, machine: CloudMachine, place: Place) -> str:
        return self._call(lambda: self._cloud.console(machine, place))

    def _call(self, act: Callable[[], Answer]) -> Answer:
        self._points.passed(between_transactions=True)
        answer = act()
        self._points.passed(between_transactions=True)
        return answer


class WatchedMarket:
    """Implements `Market` in the same way."""

    def __init__(self, market: FakeMarket, points: Points) -> None:
        self.provider = market.provider
        self._market = market
        self._points = points

    def read(self, place: Place, wanted: Sequence[Wanted]) -> Told:
        self._points.passed(between_transactions=True)
        told = self._market.read(place, wanted)
        self._points.passed(between_transactions=True)
        return told


class Renting:
    """The pass over all clouds: when woken, at its next due time, and as a safety net."""

    label = "clouds"

    def __init__(
        self,
        world: Stage,
        rng: Random,
        clouds: Mapping[str, FakeCloud],
        markets: Mapping[str, FakeMarket],
    ) -> None:
        self._world = world
        self._rng = rng
        self._clouds = clouds
        self._markets = markets
        self._planned_s = float("inf")
        self._plans = 0

    def begin(self) -> None:
        self._plan(2.0)

    def calm_down(self) -> None:
        return None

    def wake(self) -> None:
        self._plan(self._rng.uniform(0.02, 0.5))

    def work(self, process: Process) -> Done:
        self._planned_s = float("inf")
        watched = {n: WatchedCloud(c, process.points) for n, c in self._clouds.items()}
        markets = {n: WatchedMarket(m, process.points) for n, m in self._markets.items()}
        due_s = calling.run(process.ctx, watched, markets)

        def served() -> None:
            wanted = _SAFETY_NET_S if due_s is None else max(due_s, _SPACING_S)
            self._plan(min(wanted, _SAFETY_NET_S))

        return Done("" if due_s is None else f"next in {due_s:.2f} s", served)

    def lost(self) -> None:
        self._plan(self._rng.uniform(1.0, _SAFETY_NET_S))

    def _plan(self, delay_s: float) -> None:
        """At most one pass is planned; an earlier one replaces it."""
        at = self._world.timeline.seconds + delay_s
        if at < self._planned_s:
            self._planned_s = at
            self._plans += 1
            plan = self._plans
            self._world.serve(self, delay_s, lambda: plan == self._plans)


class _OneAfterTheOther:
    """Stands for the threads that call clouds at once: their order would not be the seed's."""

    def __init__(self, most: int, **named: Any) -> None:
        self._most = most

    def __enter__(self) -> "_OneAfterTheOther":
        return self

    def __exit__(self, *exc: object) -> None:
        return None

    def map(self, act: Callable[[Argument], Answer], items: Iterable[Argument]) -> list[Answer]:
        return [act(item) for item in items]


@contextmanager
def calls_in_order() -> Iterator[None]:
    with patch.object(calling, "ThreadPoolExecutor", _OneAfterTheOther):
        yield
