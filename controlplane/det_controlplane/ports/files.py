"""Access to the bucket of the cluster, and to the files of checkpoints in all supported storages."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


class ObjectStore(Protocol):
    def put(self, key: str, content: bytes) -> None: ...

    def get(self, key: str) -> bytes | None:
        """Return the object, or None if it does not exist."""
        ...

    def size(self, key: str) -> int | None: ...

    def delete(self, key: str) -> None: ...

    def upload_url(self, key: str, size: int, expires_s: int) -> str:
        """Return a URL for one PUT of exactly `size` bytes without further credentials.

        The URL may be a path. The caller appends it to the address of the API."""
        ...

    def download_url(self, key: str, expires_s: int) -> str:
        """Return a URL for a GET of the object without further credentials.

        The URL is empty if only the API can return objects."""
        ...


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
