"""The states of a checkpoint. A checkpoint is visible when it is complete, and only deletion removes its files.

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
    """Return the state and files after comparing the recorded files with the stored files.

    A deleted checkpoint never becomes visible again, and keeps the record of the files that it had. The comparison
    ignores unrecorded files, and directories, because object storages do not store directories.
    """
    if state is CheckpointState.DELETED or not stored:
        return RemainingFiles(CheckpointState.DELETED, dict(recorded))
    if all(path in stored or path.endswith("/") for path in recorded):
        return RemainingFiles(state, dict(recorded))
    remaining = {path: stored[path] for path in recorded if path in stored}
    partly = CheckpointState.PARTIALLY_DELETED
    return RemainingFiles(partly if state is CheckpointState.COMPLETED else state, remaining)
