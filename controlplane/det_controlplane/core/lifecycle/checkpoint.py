"""A checkpoint's states: it is visible when complete, and loses files only by deletion.

See docs/concepts/lifecycle.md#checkpoint."""

from collections.abc import Mapping
from enum import Enum


class CheckpointState(str, Enum):
    ACTIVE = "ACTIVE"
    COMPLETED = "COMPLETED"
    ERROR = "ERROR"
    DELETED = "DELETED"
    PARTIALLY_DELETED = "PARTIALLY_DELETED"


NEXT = {
    CheckpointState.ACTIVE: frozenset({CheckpointState.COMPLETED, CheckpointState.ERROR}),
    CheckpointState.COMPLETED: frozenset(
        {CheckpointState.PARTIALLY_DELETED, CheckpointState.DELETED}
    ),
    CheckpointState.PARTIALLY_DELETED: frozenset({CheckpointState.DELETED}),
    CheckpointState.ERROR: frozenset({CheckpointState.DELETED}),
    CheckpointState.DELETED: frozenset(),
}


def after_removal(
    state: CheckpointState, before: Mapping[str, str], left: Mapping[str, str]
) -> CheckpointState:
    """The state once only `left` of its files exist. What was deleted does not come back."""
    if state is CheckpointState.DELETED or not left:
        return CheckpointState.DELETED
    if state is CheckpointState.COMPLETED and dict(left) != dict(before):
        return CheckpointState.PARTIALLY_DELETED
    return state
