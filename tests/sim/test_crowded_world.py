"""Histories of several people with roles, clocks that differ, two pools, cut-off uploads and log policies."""

import os

import pytest

from tests.support.thorough import often
from tests.world.crowded_world import CrowdedWorld
from tests.world.hosts import Hosts

_FIRST = int(os.environ.get("SIM_FIRST_SEED", "1"))
_ALWAYS = 100  # worlds of which each has an upload
_SEEDS = int(os.environ.get("SIM_SEEDS", often(3, 4)))


@pytest.mark.parametrize("seed", range(_FIRST, _FIRST + _SEEDS))
def test_users_cannot_exceed_their_roles_and_no_data_remains(seed: int, hosts: Hosts) -> None:
    world = CrowdedWorld(seed, hosts)
    assert world.run().experiments > 0
    # In one world of a thousand all trials end before their first checkpoint.
    assert world.ledger.announced or seed > _ALWAYS
