"""Histories of a cluster with rented machines: `make sim SEEDS=200 FIRST_SEED=1` plays more of them."""

import os

import pytest

from tests.sim.machine_mutations import gangs_only
from tests.support.thorough import often
from tests.world import machine_people
from tests.world.hosts import Hosts
from tests.world.machine_world import MachineWorld

_FIRST = int(os.environ.get("SIM_FIRST_SEED", "1"))
_SEEDS = int(os.environ.get("SIM_SEEDS", often(3, 4)))


@pytest.mark.parametrize("seed", range(_FIRST, _FIRST + _SEEDS))
def test_invariants_hold_in_worlds_with_rented_machines(seed: int, hosts: Hosts) -> None:
    summary = MachineWorld(seed, hosts).run()
    # A world may have no experiment, or cancel its few before a machine is rented for them.
    assert summary.machines > 0 or summary.experiments <= 2


@pytest.mark.parametrize("seed", [1])
def test_gangs_of_two_machines_start_in_one_region(
    seed: int, hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this world a mutation spreads gangs; without the mutation the world passes."""
    monkeypatch.setattr(machine_people, "rented_experiment_config", gangs_only)
    assert MachineWorld(seed, hosts).run().machines > 1
