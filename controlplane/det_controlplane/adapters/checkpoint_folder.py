"""Checkpoints in a local directory. Containers write to it, so its content is not trusted."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from det_controlplane.ports.files import StorageUnreachable, StoredFile

PIECE = 1024 * 1024


class CheckpointFolder:
    """Read checkpoints below `base`. Links that lead out of a checkpoint are ignored."""

    def __init__(self, base: Path) -> None:
        self._base = base

    def exists(self, checkpoint: str) -> bool:
        """Return False only if the path does not exist. Every other error raises StorageUnreachable."""
        try:
            os.lstat(self._base / checkpoint)
        except FileNotFoundError:
            return False
        except (OSError, RuntimeError) as e:
            raise StorageUnreachable(f"{self._base} cannot be read: {e}") from e
        return True

    def files(self, checkpoint: str) -> list[StoredFile]:
        try:
            return self._files(checkpoint)
        except (
            OSError,
            RuntimeError,
        ) as e:  # before Python 3.13, a loop of links raises RuntimeError
            raise StorageUnreachable(f"{self._base} cannot be read: {e}") from e

    def _files(self, checkpoint: str) -> list[StoredFile]:
        if not self._base.is_dir():
            raise StorageUnreachable(
                f"{self._base} is not a directory of the machine that runs the API"
            )
        folder = self._base / checkpoint
        files = [
            StoredFile(path.relative_to(folder).as_posix(), path.stat().st_size)
            for path in folder.rglob("*")
            if self._inside(checkpoint, path) and path.is_file()
        ]
        if not files and not any(self._base.iterdir()):
            raise StorageUnreachable(
                f"{self._base} is empty on the machine that runs the API, as if the storage were not mounted"
            )
        return files

    def read(self, checkpoint: str, path: str) -> Iterator[bytes]:
        try:
            parts = self._inside(checkpoint, self._base / checkpoint / path)
            if not parts:
                raise FileNotFoundError(path)
            file = _open_file(self._base, (checkpoint, *parts))
        except (OSError, RuntimeError) as e:
            raise StorageUnreachable(f"{path} is not a file of checkpoint {checkpoint}") from e
        with file:
            while piece := file.read(PIECE):
                yield piece

    def _inside(self, checkpoint: str, path: Path) -> Sequence[str]:
        """Return the parts of the resolved path within its checkpoint, or () if it leads out of the checkpoint."""
        folder = self._base.resolve() / checkpoint
        resolved = path.resolve()
        return resolved.relative_to(folder).parts if resolved.is_relative_to(folder) else ()


def _open_file(base: Path, parts: Sequence[str]) -> BinaryIO:
    """Open a file below a directory without following links, also if a link is created after a check."""
    here = os.open(base, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in parts[:-1]:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
            os.close(here)
            here = inner
        # A pipe in place of a file must not block the API until the pipe has a writer.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        return os.fdopen(os.open(parts[-1], flags, dir_fd=here), "rb")
    finally:
        os.close(here)
