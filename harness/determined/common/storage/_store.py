"""The interface between object storage and a cloud's SDK."""

import abc
from typing import Any, Callable, Iterator, Sequence, Tuple

from determined.common.storage._parts import Part


class ObjectStore(abc.ABC):
    """A bucket. All methods may be called from many threads at once.

    A missing object raises FileNotFoundError and denied access raises PermissionError. Callers retry after any other
    exception.
    """

    delete_batch: int  # the maximum number of keys for one call of `delete`
    largest_part: int  # bytes, or 0 if parts of large files should be as small as possible

    @abc.abstractmethod
    def put(self, key: str, body: bytes) -> None: ...

    @abc.abstractmethod
    def begin_parts(self, key: str) -> str: ...

    @abc.abstractmethod
    def put_part(self, key: str, upload_id: str, number: int, part: Part) -> str: ...

    @abc.abstractmethod
    def end_parts(self, key: str, upload_id: str, tags: Sequence[str]) -> None: ...

    @abc.abstractmethod
    def abort_parts(self, key: str, upload_id: str, tags: Sequence[str]) -> None: ...

    def abort_unfinished(self, prefix: str) -> None:  # noqa: B027
        """Abort uploads in parts that a killed program left. Only S3 keeps their parts for ever and out of listings."""

    @abc.abstractmethod
    def get(self, key: str) -> bytes: ...

    @abc.abstractmethod
    def get_range(self, key: str, start: int, length: int) -> Iterator[bytes]: ...

    @abc.abstractmethod
    def list(self, prefix: str) -> Iterator[Tuple[str, int]]: ...

    @abc.abstractmethod
    def delete(self, keys: Sequence[str]) -> None: ...


class BlobStore(ObjectStore):
    """A store with an SDK that lists blobs in pages, deletes one blob per request and needs parts as bytes."""

    delete_batch = 1
    largest_part = 0

    @abc.abstractmethod
    def _pages(self, prefix: str) -> Iterator[Any]:
        """Return the SDK's iterator over pages of blobs."""

    @abc.abstractmethod
    def _delete(self, key: str) -> None: ...

    @abc.abstractmethod
    def _call(self, key: str, work: Callable[[], Any]) -> Any:
        """Run `work` and translate the SDK's errors. Include `key` in their messages."""

    def list(self, prefix: str) -> Iterator[Tuple[str, int]]:
        pages = self._pages(prefix)
        while True:
            page = self._call(prefix, lambda: next(pages, None))
            if page is None:
                return
            for blob in page:
                yield str(blob.name), int(blob.size)

    def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            try:
                self._call(key, lambda key=key: self._delete(key))  # type: ignore[misc]
            except FileNotFoundError:
                continue


def mount_wide_adapters(session: Any, connections: int) -> None:
    """Let a `requests` session keep one connection per thread. By default it keeps ten and reopens the rest."""
    from requests.adapters import HTTPAdapter

    for scheme in ("https://", "http://"):
        session.mount(scheme, HTTPAdapter(pool_maxsize=connections))
