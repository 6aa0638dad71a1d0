"""A checkpoint's states: it is visible when complete, and loses files only by deletion.

See docs/concepts/lifecycle.md#checkpoint."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class CheckpointState(str, Enum):
    ACTIVE = "ACTIVE"
    COMPLETED = "COMPLETED"
    ERROR = "ERROR"
    DELETED = "DELETED"
    PARTIALLY_DELETED = "PARTIALLY_DELETED"


NEXT = {
    CheckpointState.ACTIVE: frozenset(
        {CheckpointState.COMPLETED, CheckpointState.ERROR, CheckpointState.DELETED}
    ),
    CheckpointState.COMPLETED: frozenset(
        {CheckpointState.PARTIALLY_DELETED, CheckpointState.DELETED}
    ),
    CheckpointState.PARTIALLY_DELETED: frozenset({CheckpointState.DELETED}),
    CheckpointState.ERROR: frozenset({CheckpointState.DELETED}),
    CheckpointState.DELETED: frozenset(),
}


@dataclass(frozen=True, slots=True)
class RemainingFiles:
    """A checkpoint's state and its recorded files (sizes by path) after some were deleted."""

    state: CheckpointState
    resources: dict[str, str]


def after_removal(
    state: CheckpointState, recorded: Mapping[str, str], stored: Mapping[str, str]
) -> RemainingFiles:
    """Compare the record with what the storage still holds. What was deleted does not come back.

    A deleted checkpoint keeps the record of the files that it had. Files that the record does not know, and
    directories, which object storages forget, say nothing about a loss.
    """
    if state is CheckpointState.DELETED or not stored:
        return RemainingFiles(CheckpointState.DELETED, dict(recorded))
    if all(path in stored or path.endswith("/") for path in recorded):
        return RemainingFiles(state, dict(recorded))
    left = {path: stored[path] for path in recorded if path in stored}
    partly = CheckpointState.PARTIALLY_DELETED
    return RemainingFiles(partly if state is CheckpointState.COMPLETED else state, left)
