"""The small transition tables: agents, checkpoints, machines."""

from datetime import datetime, timedelta, timezone

from det_controlplane.core.lifecycle import agent, checkpoint, instance
from det_controlplane.core.lifecycle.agent import AgentState
from det_controlplane.core.lifecycle.checkpoint import CheckpointState, after_removal
from det_controlplane.core.lifecycle.instance import (
    REGISTRATION_TIMEOUT,
    InstanceState,
    after_waiting,
)

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
SECOND = timedelta(seconds=1)


def test_a_lost_agent_comes_back_only_by_joining_anew() -> None:
    assert agent.NEXT[AgentState.LOST] == {AgentState.JOINED}


def test_a_checkpoint_loses_some_files_or_all_and_gets_none_back() -> None:
    files = {"a": "1", "b": "2"}
    assert after_removal(CheckpointState.COMPLETED, files, files) is CheckpointState.COMPLETED
    assert (
        after_removal(CheckpointState.COMPLETED, files, {"a": "1"})
        is CheckpointState.PARTIALLY_DELETED
    )
    assert (
        after_removal(CheckpointState.PARTIALLY_DELETED, {"a": "1"}, {}) is CheckpointState.DELETED
    )
    assert after_removal(CheckpointState.DELETED, {}, files) is CheckpointState.DELETED
    assert checkpoint.NEXT[CheckpointState.DELETED] == frozenset()


def test_a_machine_whose_agent_never_joins_is_sent_back() -> None:
    launched, joined = InstanceState.LAUNCHED, InstanceState.REGISTERED
    just_before = NOW + REGISTRATION_TIMEOUT - SECOND
    assert after_waiting(launched, launched_at=NOW, now=just_before) is launched
    overdue = NOW + REGISTRATION_TIMEOUT
    assert after_waiting(launched, launched_at=NOW, now=overdue) is InstanceState.TERMINATING
    assert after_waiting(joined, launched_at=NOW, now=overdue) is joined


def test_every_machine_can_reach_its_end() -> None:
    ends = {InstanceState.GONE, InstanceState.FAILED}
    for start in InstanceState:
        reached, frontier = set(), {start}
        while frontier:
            reached |= frontier
            frontier = {n for s in frontier for n in instance.NEXT[s]} - reached
        assert reached & ends
