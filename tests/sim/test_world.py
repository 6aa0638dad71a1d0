"""Histories of a simulated cluster: `make sim SEEDS=200 FIRST_SEED=1` plays more of them."""

import os

import pytest
from det_controlplane.testing import Hosts, World

_FIRST = int(os.environ.get("SIM_FIRST_SEED", "1"))
_SEEDS = int(os.environ.get("SIM_SEEDS", "20"))


@pytest.mark.parametrize("seed", range(_FIRST, _FIRST + _SEEDS))
def test_every_invariant_holds_after_every_step(seed: int, hosts: Hosts) -> None:
    summary = World(seed, hosts).run()
    assert summary.experiments > 0
    assert summary.steps > 50


def test_a_seed_always_plays_the_same_history(hosts: Hosts) -> None:
    histories = []
    for _ in range(2):
        # One after the other: a new world empties the database.
        world = World(_FIRST, hosts)
        world.run()
        histories.append(world.history)
    assert histories[0] == histories[1]
