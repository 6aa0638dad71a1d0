"""Histories of elastic gangs that lose machines, shrink and grow."""

import os

import pytest

from tests.world.elastic_world import ElasticMachineWorld, ElasticWorld
from tests.world.hosts import Hosts

_FIRST = int(os.environ.get("SIM_FIRST_SEED", "1"))
_SEEDS = int(os.environ.get("SIM_SEEDS", "2"))


@pytest.mark.parametrize("seed", range(_FIRST, _FIRST + _SEEDS))
def test_elastic_gangs_continue_on_other_agents(seed: int, hosts: Hosts) -> None:
    summary = ElasticWorld(seed, hosts).run()
    assert summary.steps > 20  # in some worlds no gang fits while a user submits


@pytest.mark.parametrize("seed", range(_FIRST, _FIRST + _SEEDS))
def test_pools_rent_for_elastic_gangs_and_end_idle(seed: int, hosts: Hosts) -> None:
    assert ElasticMachineWorld(seed, hosts).run().steps > 20
