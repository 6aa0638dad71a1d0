"""The small transition tables: agents, checkpoints, machines."""

from det_controlplane.core.lifecycle import agent, checkpoint, machine
from det_controlplane.core.lifecycle.agent import AgentState
from det_controlplane.core.lifecycle.checkpoint import (
    CheckpointState,
    RemainingFiles,
    after_removal,
)
from det_controlplane.core.lifecycle.machine import MachineState


def test_a_lost_agent_comes_back_only_by_joining_anew() -> None:
    assert agent.NEXT[AgentState.LOST] == {AgentState.JOINED}


def test_a_checkpoint_loses_some_files_or_all_and_gets_none_back() -> None:
    complete, partly = CheckpointState.COMPLETED, CheckpointState.PARTIALLY_DELETED
    deleted = CheckpointState.DELETED
    files, one = {"a": "1", "b": "2"}, {"a": "1"}
    assert after_removal(complete, files, files) == RemainingFiles(complete, files)
    assert after_removal(complete, files, one) == RemainingFiles(partly, one)
    assert after_removal(partly, one, files) == RemainingFiles(partly, one)
    assert after_removal(deleted, files, files) == RemainingFiles(deleted, files)
    assert checkpoint.NEXT[deleted] == frozenset()


def test_a_deleted_checkpoint_keeps_the_record_of_its_files() -> None:
    files = {"a": "1", "b": "2"}
    for before in (CheckpointState.COMPLETED, CheckpointState.PARTIALLY_DELETED):
        assert after_removal(before, files, {}) == RemainingFiles(CheckpointState.DELETED, files)


def test_files_beside_the_record_and_directories_say_nothing_about_a_loss() -> None:
    files, complete = {"code/": "0", "code/m.py": "1"}, CheckpointState.COMPLETED
    stored = {"code/m.py": "7", "metadata.json": "90"}
    assert after_removal(complete, files, stored) == RemainingFiles(complete, files)


def test_a_machine_comes_to_an_end_from_every_state() -> None:
    for state in MachineState:
        reached = {state}
        while following := {n for s in reached for n in machine.NEXT[s]} - reached:
            reached |= following
        assert reached & {MachineState.GONE, MachineState.FAILED}


def test_a_machine_that_was_launched_never_counts_as_failed() -> None:
    assert machine.before(MachineState.FAILED) == (MachineState.REQUESTED,)


def test_every_machine_can_reach_its_end() -> None:
    ends = {MachineState.GONE, MachineState.FAILED}
    for start in MachineState:
        reached, frontier = set(), {start}
        while frontier:
            reached |= frontier
            frontier = {n for s in frontier for n in machine.NEXT[s]} - reached
        assert reached & ends
