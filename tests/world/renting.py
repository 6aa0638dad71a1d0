"""Clouds as processes of the control plane call them, and the pass that calls them, as its hosts run it."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any, TypeVar
from unittest.mock import patch

from det_controlplane.core.provision.prices import WantedType
from det_controlplane.ports.compute import (
    CloudMachine,
    LaunchOutcome,
    LaunchRequest,
    MarketAnswer,
    Place,
    Refusal,
)
from det_controlplane.services.machines import calling
from det_controlplane.testing.fakecloud import FakeCloud
from det_controlplane.testing.fakemarket import FakeMarket

from tests.world.faults import Points
from tests.world.processes import Process
from tests.world.stage import Stage
from tests.world.ticking import Rounds

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

    def delete_groups(self, cluster_id: str, place: Place, in_use: Collection[str]) -> bool:
        return self._call(lambda: self._cloud.delete_groups(cluster_id, place, in_use))

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

    def read(self, place: Place, types: Sequence[WantedType]) -> MarketAnswer:
        self._points.passed(between_transactions=True)
        market_answer = self._market.read(place, types)
        self._points.passed(between_transactions=True)
        return market_answer


class Renting(Rounds):
    """The pass over all clouds."""

    label = "clouds"
    first_s = 2.0

    def __init__(
        self,
        world: Stage,
        rng: Random,
        clouds: Mapping[str, FakeCloud],
        markets: Mapping[str, FakeMarket],
    ) -> None:
        super().__init__(world, rng)
        self._clouds = clouds
        self._markets = markets

    def _run(self, process: Process) -> tuple[float | None, Callable[[], None]]:
        watched_clouds = {n: WatchedCloud(c, process.points) for n, c in self._clouds.items()}
        markets = {n: WatchedMarket(m, process.points) for n, m in self._markets.items()}
        return calling.run(process.ctx, watched_clouds, markets), lambda: None


class _OneAfterTheOther:
    """Stands for the threads that call clouds at once: their order would not be the seed's."""

    def __init__(self, most: int, **options: Any) -> None:
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
