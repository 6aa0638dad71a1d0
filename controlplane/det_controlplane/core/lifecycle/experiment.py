"""The states of an experiment and the commands of users (docs/concepts/lifecycle.md#experiment)."""

from enum import Enum


class ExperimentState(str, Enum):
    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    STOPPING_COMPLETED = "STOPPING_COMPLETED"
    STOPPING_CANCELED = "STOPPING_CANCELED"
    STOPPING_KILLED = "STOPPING_KILLED"
    STOPPING_ERROR = "STOPPING_ERROR"
    COMPLETED = "COMPLETED"
    CANCELED = "CANCELED"
    ERROR = "ERROR"
    DELETING = "DELETING"
    DELETE_FAILED = "DELETE_FAILED"

    @property
    def live(self) -> bool:
        """Return whether the searcher still creates work."""
        return self in (S.ACTIVE, S.PAUSED)

    @property
    def stopping(self) -> bool:
        return self in _END_OF

    @property
    def terminal(self) -> bool:
        return not self.live and not self.stopping


S = ExperimentState


class Command(Enum):
    ACTIVATE = "activate"
    PAUSE = "pause"
    CANCEL = "cancel"
    KILL = "kill"


_END_OF = {
    S.STOPPING_COMPLETED: S.COMPLETED,
    S.STOPPING_CANCELED: S.CANCELED,
    S.STOPPING_KILLED: S.CANCELED,
    S.STOPPING_ERROR: S.ERROR,
}

NEXT: dict[S, frozenset[S]] = {
    S.ACTIVE: frozenset({S.PAUSED, *_END_OF, S.ERROR}),
    S.PAUSED: frozenset({S.ACTIVE, *_END_OF, S.ERROR}),
    S.STOPPING_CANCELED: frozenset({S.CANCELED, S.STOPPING_KILLED, S.STOPPING_ERROR, S.ERROR}),
    S.STOPPING_KILLED: frozenset({S.CANCELED, S.STOPPING_ERROR, S.ERROR}),
    S.STOPPING_COMPLETED: frozenset({S.COMPLETED, S.STOPPING_ERROR, S.ERROR}),
    S.STOPPING_ERROR: frozenset({S.ERROR}),
    S.COMPLETED: frozenset({S.DELETING}),
    S.CANCELED: frozenset({S.DELETING}),
    S.ERROR: frozenset({S.DELETING}),
    S.DELETING: frozenset({S.DELETE_FAILED}),
    S.DELETE_FAILED: frozenset({S.DELETING}),
}

_TARGET = {
    Command.ACTIVATE: S.ACTIVE,
    Command.PAUSE: S.PAUSED,
    Command.CANCEL: S.STOPPING_CANCELED,
    Command.KILL: S.STOPPING_KILLED,
}


class NotAllowed(Exception):
    """The state does not allow the command. The message names both."""


def allowed(state: S, to: S) -> bool:
    return to in NEXT[state]


def end_of(state: S) -> S:
    """Return the final state of a stopping experiment, which it reaches after its last trial has ended."""
    return _END_OF[state]


def after_command(state: S, command: Command) -> S:
    """Return the state after a user's command. A command without effect succeeds. Raises NotAllowed."""
    target = _TARGET[command]
    if state == target or (command in (Command.CANCEL, Command.KILL) and not state.live):
        return target if allowed(state, target) else state
    if not allowed(state, target):
        raise NotAllowed(f"cannot {command.value} in state {state.value}")
    return target
