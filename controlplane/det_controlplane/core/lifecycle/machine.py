"""The states of a rented machine. Its allocations show whether it is idle or busy, so these are not states."""

from enum import Enum


class MachineState(str, Enum):
    REQUESTED = "REQUESTED"  # The request is stored. The cloud may not have received it yet.
    LAUNCHED = "LAUNCHED"  # The cloud has started it. Its agent has not joined yet.
    REGISTERED = "REGISTERED"  # Its agent has joined.
    DRAINING = "DRAINING"  # It gets no new work.
    TERMINATING = "TERMINATING"  # Its termination was ordered and is not confirmed yet.
    GONE = "GONE"  # The cloud no longer lists it.
    FAILED = (
        "FAILED"  # It was never launched: no capacity, quota, no permission or an invalid request.
    )


S = MachineState

NEXT = {
    S.REQUESTED: frozenset({S.LAUNCHED, S.TERMINATING, S.FAILED}),
    S.LAUNCHED: frozenset({S.REGISTERED, S.TERMINATING, S.GONE}),
    S.REGISTERED: frozenset({S.DRAINING, S.TERMINATING, S.GONE}),
    S.DRAINING: frozenset({S.TERMINATING, S.GONE}),
    S.TERMINATING: frozenset({S.GONE}),
    S.GONE: frozenset(),
    S.FAILED: frozenset(),
}


def before(state: MachineState) -> tuple[MachineState, ...]:
    """Return the states from which a machine can enter this state."""
    return tuple(earlier for earlier, later in NEXT.items() if state in later)
