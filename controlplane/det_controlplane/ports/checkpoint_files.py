"""Access to the files of checkpoints in all supported storages."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class StoredFile:
    path: str  # relative to the checkpoint
    size: int


class StorageUnreachable(Exception):
    """This process cannot read the storage. The message gives the reason."""


class CheckpointFiles(Protocol):
    def files(self, storage: Mapping[str, Any], checkpoint: str) -> Sequence[StoredFile]:
        """Return the stored files of a checkpoint, by path. `storage` is an experiment's `checkpoint_storage`."""
        ...

    def finder(self, storage: Mapping[str, Any]) -> Callable[[str], bool]:
        """Return a function that returns whether a checkpoint has files. It quickly raises StorageUnreachable."""
        ...

    def read(self, storage: Mapping[str, Any], checkpoint: str, path: str) -> Iterator[bytes]:
        """Yield a file in pieces."""
        ...
