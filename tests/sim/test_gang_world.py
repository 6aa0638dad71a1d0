"""Histories of trials over several agents that are out of contact for a while, together."""

import os

import pytest

from tests.world.gang_world import GangWorld
from tests.world.hosts import Hosts

_FIRST = int(os.environ.get("SIM_FIRST_SEED", "1"))
_SEEDS = int(os.environ.get("SIM_SEEDS", "2"))


@pytest.mark.parametrize("seed", range(_FIRST, _FIRST + _SEEDS))
def test_gangs_continue_if_all_their_agents_rejoin(seed: int, hosts: Hosts) -> None:
    summary = GangWorld(seed, hosts).run()
    assert summary.steps > 20  # in some worlds no gang fits while a user submits
