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


def test_pause_and_activate_go_back_and_forth_and_may_be_repeated() -> None:
    assert after_command(S.ACTIVE, Command.PAUSE) is S.PAUSED
    assert after_command(S.PAUSED, Command.PAUSE) is S.PAUSED
    assert after_command(S.PAUSED, Command.ACTIVATE) is S.ACTIVE
    assert after_command(S.ACTIVE, Command.ACTIVATE) is S.ACTIVE


@pytest.mark.parametrize("state", [*STOPPING, *ENDED])
@pytest.mark.parametrize("command", [Command.PAUSE, Command.ACTIVATE])
def test_what_stops_or_has_ended_is_neither_paused_nor_activated(
    state: S, command: Command
) -> None:
    with pytest.raises(NotAllowed, match=f"cannot {command.value} in state {state.value}"):
        after_command(state, command)


@pytest.mark.parametrize("state", ENDED)
@pytest.mark.parametrize("command", [Command.CANCEL, Command.KILL])
def test_canceling_what_has_ended_succeeds_and_changes_nothing(state: S, command: Command) -> None:
    assert after_command(state, command) is state


def test_a_kill_upgrades_a_cancel_but_no_cancel_softens_a_kill() -> None:
    assert after_command(S.STOPPING_CANCELED, Command.KILL) is S.STOPPING_KILLED
    assert after_command(S.STOPPING_KILLED, Command.CANCEL) is S.STOPPING_KILLED
    assert after_command(S.STOPPING_ERROR, Command.KILL) is S.STOPPING_ERROR


def test_stopping_ends_where_it_says() -> None:
    assert [end_of(s) for s in STOPPING] == [S.COMPLETED, S.CANCELED, S.CANCELED, S.ERROR]


@pytest.mark.parametrize("state", ENDED)
def test_only_deleting_follows_the_end(state: S) -> None:
    assert [to for to in S if allowed(state, to)] == [S.DELETING]
