"""Files of a storage that are open for writing."""

import contextlib
import os
import tempfile
from typing import Any, Iterator


class StoredFile:
    """A file that is open for writing. After it is closed, it has a size and perhaps a checksum."""

    size = 0
    checksum: Any = None  # a FileChecksum, if the storage keeps checksums

    def write(self, data: Any) -> int:
        raise NotImplementedError

    @contextlib.contextmanager
    def piece(self) -> Iterator[None]:
        """Compute the checksum of the bytes that the block writes, if the storage keeps checksums."""
        yield

    def flush(self) -> None:
        """Return at once. `torch.save` calls this method at the end."""


class LocalFile(StoredFile):
    """A file of a mounted storage. It gets its name when it is complete."""

    def __init__(self, path: str) -> None:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self._path = path
        handle, self._scratch = tempfile.mkstemp(prefix=".partial-", dir=os.path.dirname(path))
        self._file = os.fdopen(handle, "wb")

    def write(self, data: Any) -> int:
        count = self._file.write(data)
        self.size += count
        return count

    def close(self) -> None:
        self._file.close()
        os.chmod(self._scratch, 0o666 & ~_umask())
        os.replace(self._scratch, self._path)

    def abort(self) -> None:
        self._file.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._scratch)


@contextlib.contextmanager
def closing(file: Any) -> Iterator[Any]:
    """Yield the file. Complete it at the end of the block, or discard it after an error."""
    try:
        yield file
        file.close()
    except BaseException:
        file.abort()
        raise


def _umask() -> int:
    value = os.umask(0)
    os.umask(value)
    return value
