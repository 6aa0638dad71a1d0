"""The small transition tables: agents, checkpoints, machines."""

from det_controlplane.core.lifecycle import agent, checkpoint, machine
from det_controlplane.core.lifecycle.agent import AgentState
from det_controlplane.core.lifecycle.checkpoint import (
    CheckpointState,
    RemainingFiles,
    after_removal,
)
from det_controlplane.core.lifecycle.machine import MachineState


def test_lost_agent_returns_only_by_joining_again() -> None:
    assert agent.NEXT[AgentState.LOST] == {AgentState.JOINED}


def test_checkpoint_files_are_only_removed_and_never_restored() -> None:
    complete, partly = CheckpointState.COMPLETED, CheckpointState.PARTIALLY_DELETED
    state_deleted = CheckpointState.DELETED
    files, one = {"a": "1", "b": "2"}, {"a": "1"}
    assert after_removal(complete, files, files) == RemainingFiles(complete, files)
    assert after_removal(complete, files, one) == RemainingFiles(partly, one)
    assert after_removal(partly, one, files) == RemainingFiles(partly, one)
    assert after_removal(state_deleted, files, files) == RemainingFiles(state_deleted, files)
    assert checkpoint.NEXT[state_deleted] == frozenset()


def test_deleted_checkpoint_still_lists_its_files() -> None:
    files = {"a": "1", "b": "2"}
    for before in (CheckpointState.COMPLETED, CheckpointState.PARTIALLY_DELETED):
        assert after_removal(before, files, {}) == RemainingFiles(CheckpointState.DELETED, files)


def test_unlisted_files_and_directories_do_not_change_the_state() -> None:
    files, complete = {"code/": "0", "code/m.py": "1"}, CheckpointState.COMPLETED
    resources = {"code/m.py": "7", "metadata.json": "90"}
    assert after_removal(complete, files, resources) == RemainingFiles(complete, files)


def test_every_machine_state_leads_to_an_end() -> None:
    for state in MachineState:
        states = {state}
        while following := {n for s in states for n in machine.NEXT[s]} - states:
            states |= following
        assert states & {MachineState.GONE, MachineState.FAILED}


def test_a_machine_that_was_launched_never_counts_as_failed() -> None:
    assert machine.before(MachineState.FAILED) == (MachineState.REQUESTED,)


def test_every_path_of_a_machine_can_reach_an_end() -> None:
    ends = {MachineState.GONE, MachineState.FAILED}
    for start in MachineState:
        states, frontier = set(), {start}
        while frontier:
            states |= frontier
            frontier = {n for s in frontier for n in machine.NEXT[s]} - states
        assert states & ends
