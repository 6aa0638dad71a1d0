"""Histories of a cluster with a pool that is created, changed and deleted while users work in it."""

import os

import pytest

from tests.support.thorough import often
from tests.world.hosts import Hosts
from tests.world.pool_world import PoolWorld

_FIRST = int(os.environ.get("SIM_FIRST_SEED", "1"))
_SEEDS = int(os.environ.get("SIM_SEEDS", often(2, 4)))


@pytest.mark.parametrize("seed", range(_FIRST, _FIRST + _SEEDS))
def test_no_work_is_lost_when_pools_come_and_go(seed: int, hosts: Hosts) -> None:
    PoolWorld(seed, hosts).run()
