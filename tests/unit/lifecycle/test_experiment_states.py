"""The commands for an experiment in each state."""

import pytest
from det_controlplane.core.lifecycle.experiment import (
    Command,
    ExperimentState,
    NotAllowed,
    after_command,
    allowed,
    end_of,
)

S = ExperimentState
ENDED = [S.COMPLETED, S.CANCELED, S.ERROR]
STOPPING = [S.STOPPING_COMPLETED, S.STOPPING_CANCELED, S.STOPPING_KILLED, S.STOPPING_ERROR]


def test_pause_and_activate_can_be_repeated() -> None:
    assert after_command(S.ACTIVE, Command.PAUSE) is S.PAUSED
    assert after_command(S.PAUSED, Command.PAUSE) is S.PAUSED
    assert after_command(S.PAUSED, Command.ACTIVATE) is S.ACTIVE
    assert after_command(S.ACTIVE, Command.ACTIVATE) is S.ACTIVE


@pytest.mark.parametrize("state", [*STOPPING, *ENDED])
@pytest.mark.parametrize("command", [Command.PAUSE, Command.ACTIVATE])
def test_rejects_pause_and_activate_of_stopping_and_ended_experiments(
    state: S, command: Command
) -> None:
    with pytest.raises(NotAllowed, match=f"cannot {command.value} in state {state.value}"):
        after_command(state, command)


@pytest.mark.parametrize("state", ENDED)
@pytest.mark.parametrize("command", [Command.CANCEL, Command.KILL])
def test_canceling_an_ended_experiment_has_no_effect(state: S, command: Command) -> None:
    assert after_command(state, command) is state


def test_kill_replaces_cancel_but_cancel_does_not_replace_kill() -> None:
    assert after_command(S.STOPPING_CANCELED, Command.KILL) is S.STOPPING_KILLED
    assert after_command(S.STOPPING_KILLED, Command.CANCEL) is S.STOPPING_KILLED
    assert after_command(S.STOPPING_ERROR, Command.KILL) is S.STOPPING_ERROR


def test_stopping_states_end_in_their_final_states() -> None:
    assert [end_of(s) for s in STOPPING] == [S.COMPLETED, S.CANCELED, S.CANCELED, S.ERROR]


@pytest.mark.parametrize("state", ENDED)
def test_ended_experiments_can_only_be_deleted(state: S) -> None:
    assert [to for to in S if allowed(state, to)] == [S.DELETING]
