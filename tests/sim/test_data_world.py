"""Random histories of agents that cache data sets."""

from collections.abc import Iterable

import pytest
from det_controlplane.core.datasets.eviction import CachedObject, make_room

from tests.support.thorough import often
from tests.world.data_world import DataWorld, Evict
from tests.world.violation import Violation


def evicting_data_in_use(
    objects: Iterable[CachedObject], needed: int, capacity: int
) -> list[str] | None:
    return make_room([one._replace(in_use=False) for one in objects], needed, capacity)


def evicting_none(objects: Iterable[CachedObject], needed: int, capacity: int) -> list[str] | None:
    return []


@pytest.mark.parametrize("seed", range(often(40, 400)))
def test_data_in_use_stays_and_no_start_waits_for_data(seed: int) -> None:
    world = DataWorld(seed)
    world.run(150)
    world.drain()
    assert world.started > 0


def test_histories_include_choices_by_data() -> None:
    worlds = [DataWorld(seed) for seed in range(20)]
    for world in worlds:
        world.run(150)
    assert sum(world.chosen for world in worlds) > 20


def run_many(rule: Evict) -> None:
    for seed in range(20):
        DataWorld(seed, rule).run(150)


@pytest.mark.parametrize("rule", [evicting_data_in_use, evicting_none])
def test_wrong_rules_are_noticed(rule: Evict) -> None:
    with pytest.raises(Violation):
        run_many(rule)
