"""Histories of a cluster whose machines are rented: `make sim SEEDS=200 FIRST_SEED=1` plays more of them."""

import os

import pytest
from det_controlplane.testing import Hosts, MachineWorld

from tests.support.thorough import often

_FIRST = int(os.environ.get("SIM_FIRST_SEED", "1"))
_SEEDS = int(os.environ.get("SIM_SEEDS", often(3, 4)))


@pytest.mark.parametrize("seed", range(_FIRST, _FIRST + _SEEDS))
def test_machines_come_work_and_go(seed: int, hosts: Hosts) -> None:
    summary = MachineWorld(seed, hosts).run()
    assert summary.experiments > 0
    assert summary.machines > 0
