"""A rented machine's states. Idle and busy are not among them: they follow from allocations."""

from datetime import datetime, timedelta
from enum import Enum


class InstanceState(str, Enum):
    REQUESTED = "REQUESTED"  # the intent is committed; the cloud may or may not have heard of it
    LAUNCHED = "LAUNCHED"  # the cloud has it; its agent has not joined
    REGISTERED = "REGISTERED"  # its agent joined
    DRAINING = "DRAINING"  # nothing new is placed there
    TERMINATING = "TERMINATING"
    GONE = "GONE"
    FAILED = "FAILED"  # never launched: no capacity, quota, denied, invalid


S = InstanceState
# How long a machine may take from its launch until its agent joins.
REGISTRATION_TIMEOUT = timedelta(minutes=20)

NEXT = {
    S.REQUESTED: frozenset({S.LAUNCHED, S.FAILED}),
    S.LAUNCHED: frozenset({S.REGISTERED, S.TERMINATING, S.GONE}),
    S.REGISTERED: frozenset({S.DRAINING, S.TERMINATING, S.GONE}),
    S.DRAINING: frozenset({S.TERMINATING, S.GONE}),
    S.TERMINATING: frozenset({S.GONE}),
    S.GONE: frozenset(),
    S.FAILED: frozenset(),
}


def after_waiting(state: S, *, launched_at: datetime, now: datetime) -> S:
    """A machine whose agent never joins is sent back."""
    overdue = state is S.LAUNCHED and now - launched_at >= REGISTRATION_TIMEOUT
    return S.TERMINATING if overdue else state
