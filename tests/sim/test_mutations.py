"""The simulation notices bugs: `make sim-mutations` puts in every one of the list."""

import os

import pytest

from tests.sim.elastic_mutations import ELASTIC_MUTATIONS
from tests.sim.machine_mutations import MACHINE_MUTATIONS
from tests.sim.mutations import MUTATIONS, Mutation
from tests.sim.outage_mutations import OUTAGE_MUTATIONS
from tests.sim.task_mutations import TASK_MUTATIONS
from tests.world.elastic_world import ElasticWorld
from tests.world.gang_world import GangWorld
from tests.world.hosts import Hosts
from tests.world.machine_world import MachineWorld
from tests.world.task_world import TaskWorld
from tests.world.violation import Violation
from tests.world.world import World

_SAMPLE = (
    "slots are not released",
    "a lost agent counts as a failure",
    "the searcher is not told of exits",
    "pools rent beyond their maximum",
    "killed tasks get children",
    "ranks on agents that poll are given up",
)
_ALL = (*MUTATIONS, *MACHINE_MUTATIONS, *TASK_MUTATIONS, *OUTAGE_MUTATIONS, *ELASTIC_MUTATIONS)
# A crash of the mutated code, such as invalid SQL, does not show that a rule detects the mutation.
_FITS_NO_MORE = ("syntax error", "TypeError(", "AttributeError(", "NameError(")
_CHOSEN = [m for m in _ALL if os.environ.get("SIM_MUTATIONS") == "all" or m.name in _SAMPLE]


def _world_of(mutation: Mutation) -> type[World]:
    if mutation.with_tasks:
        return TaskWorld
    if mutation.is_elastic:
        return ElasticWorld
    if mutation.with_gangs:
        return GangWorld
    return MachineWorld if mutation.rented else World


def test_every_mutation_changes_code_that_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a sample of the mutations is played by default, so the others could become outdated."""
    for mutation in _ALL:
        mutation.breaks(monkeypatch)
        monkeypatch.undo()
    assert len(_ALL) > 50


@pytest.mark.parametrize("mutation", _CHOSEN, ids=lambda m: m.name.replace(" ", "-"))
def test_world_detects_the_mutation(
    mutation: Mutation, hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutation.breaks(monkeypatch)
    for seed in mutation.seeds:
        try:
            _world_of(mutation)(seed, hosts).run()
        except Violation as noticed:
            if any(sign in str(noticed) for sign in _FITS_NO_MORE):
                raise
            print(f"{mutation.name}: seed {seed}: {str(noticed).splitlines()[0]}")
            return
    pytest.fail(f"no world of {mutation.seeds} noticed that {mutation.name}")
