"""The states of generic tasks: the effects of requests and exits, and the final states."""

import pytest
from det_controlplane.core.lifecycle.allocation import AllocationState, Exit, ExitKind
from det_controlplane.core.lifecycle.task import (
    NEXT,
    AfterExit,
    GenericTaskState,
    NotAllowed,
    after_exit,
    after_kill,
    after_pause,
    after_unpause,
    outcome,
)

S = GenericTaskState
RUNNING, STARTING = AllocationState.RUNNING, AllocationState.STARTING


@pytest.mark.parametrize("state", S)
@pytest.mark.parametrize("kind", ExitKind)
@pytest.mark.parametrize("was_asked", [False, True])
def test_state_after_every_exit_is_in_the_transition_table(
    state: S, kind: ExitKind, was_asked: bool
) -> None:
    if state.terminal or state is S.PAUSED:
        return
    after = after_exit(state, RUNNING, Exit(kind), 1, was_asked=was_asked)
    assert after.state is state or after.state in NEXT[state]
    assert after.runs_again == (after.state is S.ACTIVE)


@pytest.mark.parametrize(
    ("state", "kind", "then"),
    [
        (S.ACTIVE, ExitKind.CLEAN, S.COMPLETED),
        (S.ACTIVE, ExitKind.FAILED, S.ERROR),
        (S.ACTIVE, ExitKind.KILLED, S.CANCELED),
        (S.ACTIVE, ExitKind.PREEMPTED, S.ACTIVE),
        (S.STOPPING_PAUSED, ExitKind.KILLED, S.PAUSED),
        (S.STOPPING_PAUSED, ExitKind.PREEMPTED, S.PAUSED),
        (S.STOPPING_PAUSED, ExitKind.NEVER_RAN, S.PAUSED),
        (S.STOPPING_PAUSED, ExitKind.INFRASTRUCTURE, S.PAUSED),
        (S.STOPPING_PAUSED, ExitKind.CLEAN, S.COMPLETED),
        (S.STOPPING_PAUSED, ExitKind.FAILED, S.ERROR),
        (S.STOPPING_CANCELED, ExitKind.CLEAN, S.CANCELED),
        (S.STOPPING_CANCELED, ExitKind.FAILED, S.CANCELED),
    ],
)
def test_state_after_an_exit_depends_on_the_request(state: S, kind: ExitKind, then: S) -> None:
    assert after_exit(state, RUNNING, Exit(kind), 1).state is then


def test_preempted_task_runs_again_after_a_kill() -> None:
    after = after_exit(S.ACTIVE, RUNNING, Exit(ExitKind.KILLED), 0, was_asked=True)
    assert after == AfterExit(S.ACTIVE, runs_again=True)


@pytest.mark.parametrize(
    ("reached", "failures", "state"),
    [(STARTING, 1, S.ACTIVE), (STARTING, 5, S.ERROR), (RUNNING, 1, S.ERROR)],
)
def test_infrastructure_failures_before_the_start_are_retried_with_a_limit(
    reached: AllocationState, failures: int, state: S
) -> None:
    loss_of_agent = Exit(ExitKind.INFRASTRUCTURE)
    assert after_exit(S.ACTIVE, reached, loss_of_agent, failures).state is state


def test_requests_can_be_repeated_and_errors_have_reasons() -> None:
    assert after_pause(S.ACTIVE, may_pause=True) is S.STOPPING_PAUSED
    assert after_pause(S.PAUSED, may_pause=True) is S.PAUSED
    assert after_unpause(S.PAUSED) is after_unpause(S.ACTIVE) is S.ACTIVE
    assert after_kill(S.ACTIVE) is after_kill(S.STOPPING_PAUSED) is S.STOPPING_CANCELED
    assert after_kill(S.PAUSED) is S.CANCELED
    for state in (S.COMPLETED, S.ERROR, S.CANCELED):
        assert after_kill(state) is state
        with pytest.raises(NotAllowed, match=state.value):
            after_unpause(state)
    with pytest.raises(NotAllowed, match="without pauses"):
        after_pause(S.ACTIVE, may_pause=False)
    with pytest.raises(NotAllowed, match="still stopping"):
        after_unpause(S.STOPPING_PAUSED)


@pytest.mark.parametrize(
    ("kind", "state"),
    [
        (ExitKind.CLEAN, "COMPLETED"),
        (ExitKind.FAILED, "ERROR"),
        (ExitKind.INFRASTRUCTURE, "ERROR"),
        (ExitKind.KILLED, "CANCELED"),
        (ExitKind.PREEMPTED, "CANCELED"),
        (ExitKind.NEVER_RAN, "CANCELED"),
    ],
)
def test_outcome_of_a_task_follows_its_last_exit(kind: ExitKind, state: str) -> None:
    assert outcome(Exit(kind)).value == state
