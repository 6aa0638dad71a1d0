"""Histories of commands, notebooks and trees of generic tasks beside experiments."""

import os

import pytest

from tests.world.hosts import Hosts
from tests.world.task_world import TaskWorld

_FIRST = int(os.environ.get("SIM_FIRST_SEED", "1"))
_SEEDS = int(os.environ.get("SIM_SEEDS", "2"))


@pytest.mark.parametrize("seed", range(_FIRST, _FIRST + _SEEDS))
def test_invariants_hold_in_worlds_with_tasks_and_task_trees(seed: int, hosts: Hosts) -> None:
    world = TaskWorld(seed, hosts)
    world.run()
    assert world.ledger.tasks.created
