"""Histories of a simulated cluster: `make sim SEEDS=200 FIRST_SEED=1` plays more of them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sim import histories
from tests.sim.histories import told
from tests.support.postgres import DatabaseServer
from tests.support.thorough import often
from tests.world.hosts import Hosts
from tests.world.world import World

_FIRST = int(os.environ.get("SIM_FIRST_SEED", "1"))
_SEEDS = int(os.environ.get("SIM_SEEDS", often(8, 20)))


@pytest.mark.parametrize("seed", range(_FIRST, _FIRST + _SEEDS))
def test_every_invariant_holds_after_every_step(seed: int, hosts: Hosts) -> None:
    summary = World(seed, hosts).run()
    assert summary.experiments > 0
    assert summary.steps > 20


_PLAYED_TWICE = range(_FIRST, _FIRST + often(1, 2))


def test_equal_seeds_give_equal_histories_in_every_process(postgres_server: DatabaseServer) -> None:
    """Hashes of sets and dictionaries differ by process, and the database may have had other worlds before."""
    with postgres_server.database() as here, postgres_server.database() as there:
        told(here, [_FIRST + 7])
        own_digests = told(here, _PLAYED_TWICE)
        module = [sys.executable, "-m", histories.__name__, there]
        result = subprocess.run(
            [*module, *map(str, _PLAYED_TWICE)],
            cwd=Path(histories.__file__).parents[2],
            env={**os.environ, "PYTHONHASHSEED": "4711"},
            capture_output=True,
            text=True,
            check=True,
        )
    assert result.stdout.splitlines() == own_digests
    assert len(own_digests) > 100 * len(_PLAYED_TWICE)
