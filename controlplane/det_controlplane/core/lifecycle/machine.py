"""A rented machine's states. Idle and busy are not among them: they follow from allocations."""

from enum import Enum


class MachineState(str, Enum):
    REQUESTED = "REQUESTED"  # the intent is committed; the cloud may or may not have heard of it
    LAUNCHED = "LAUNCHED"  # the cloud has it; its agent has not joined
    REGISTERED = "REGISTERED"  # its agent joined
    DRAINING = "DRAINING"  # nothing new is placed there
    TERMINATING = "TERMINATING"  # its end was ordered, and is not seen yet
    GONE = "GONE"  # it was, and its cloud no longer lists it
    FAILED = "FAILED"  # never launched: no capacity, quota, denied, invalid


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
    """Return the states from which a machine may come to a state."""
    return tuple(earlier for earlier, later in NEXT.items() if state in later)
