"""Checkpoints in an object store: one object per file, below a prefix per checkpoint."""

import contextlib
import os
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from determined.common.storage import _base
from determined.common.storage._base import matches_any
from determined.common.storage._store import ObjectStore
from determined.common.storage._stored_file import closing
from determined.common.storage._stream import ObjectFile
from determined.common.storage._transfer import (
    Transfer,
    read_checksums,
    retried,
    write_checksum_object,
)

CHECKSUMS = ".checksums.json"


class ObjectStorageManager(_base.StorageManager):
    """Transfers checkpoints as objects in parallel, with checksums and bounded memory. `ObjectStore` calls the SDK."""

    def __init__(self, store: ObjectStore, prefix: Optional[str], root_url: str) -> None:
        self._store = store
        self._prefix = _clean_prefix(prefix)
        self._root_url = root_url

    def upload(
        self, src: _base.StrPath, dst: str, paths: Optional[Sequence[str]] = None
    ) -> _base.Checksums:
        entries = list(_base.list_directory(src)) if paths is None else list(paths)
        base = self._key_base(dst)
        files = [p for p in entries if not p.endswith("/")]
        with Transfer(self._store) as transfer:
            for folder in _empty_directories(entries):
                transfer.put_empty(base + folder)
            return transfer.upload(os.fspath(src), base, files)

    def download(
        self, src: str, dst: _base.StrPath, selector: Optional[_base.Selector] = None
    ) -> None:
        base = self._key_base(src)
        stored = dict(self._stored(base))
        if not stored:
            raise FileNotFoundError(f"checkpoint {src} is not in {self._root_url}; was it deleted?")
        checksums = read_checksums(self._store, base + CHECKSUMS) if CHECKSUMS in stored else {}
        chosen = _base.select(_with_directories(stored), selector)
        root = os.path.realpath(os.fspath(dst))
        os.makedirs(root, exist_ok=True)
        for path in chosen:
            _make_folder(root, path)
        files = {p: size for p, size in chosen.items() if not p.endswith("/")}
        with Transfer(self._store) as transfer:
            transfer.download(base, root, files, checksums)

    @contextlib.contextmanager
    def open_write(self, dst: str, path: str, expected_bytes: int = 0) -> Iterator[Any]:
        key = self._key_base(dst) + path
        with closing(ObjectFile(self._store, key, expected_bytes)) as file:
            yield file

    def read_range(
        self, src: str, path: str, start: int, length: int, crc: Optional[int] = None
    ) -> bytes:
        if not length:
            return b""
        key = self._key_base(src) + path
        where = f"{self._root_url}/{key}"

        def read() -> bytes:
            body = b"".join(self._store.get_range(key, start, length))
            return _base.check_range(body, where, start, length, crc)

        return retried(read)

    def read_checksums(self, storage_id: str) -> _base.Checksums:
        try:
            return read_checksums(self._store, self._key_base(storage_id) + CHECKSUMS)
        except FileNotFoundError:
            return {}

    def __reduce__(self) -> Any:
        """Send the configuration to another process, which makes its own client."""
        if self.origin is None:
            raise TypeError(f"the storage {self._root_url} was made without a configuration")
        make, config = self.origin
        return make, (config,)

    def list(self, storage_id: str) -> Dict[str, int]:
        return _with_directories(dict(self._stored(self._key_base(storage_id))))

    def delete(self, storage_id: str, globs: Sequence[str] = ("**/*",)) -> Dict[str, int]:
        base = self._key_base(storage_id)
        stored = dict(self._stored(base))
        deleted = [p for p in stored if p != CHECKSUMS and matches_any(p.rstrip("/"), globs)]
        remaining = {p: size for p, size in stored.items() if p not in deleted}
        if set(remaining) <= {CHECKSUMS}:
            deleted += list(remaining)
            remaining = {}
        with Transfer(self._store) as transfer:
            transfer.delete([base + p for p in deleted])
        if not remaining:
            # These parts cost money, but a checkpoint without them is deleted, too.
            with contextlib.suppress(Exception):
                self._store.abort_unfinished(base)
        return _with_directories(remaining)

    def write_checksums(self, storage_id: str, checksums: _base.Checksums) -> None:
        if checksums:
            write_checksum_object(self._store, self._key_base(storage_id) + CHECKSUMS, checksums)

    def url(self, storage_id: str) -> str:
        return f"{self._root_url}/{self._key_base(storage_id)}".rstrip("/")

    def _key_base(self, storage_id: str) -> str:
        return f"{self._prefix}{_base.check_storage_id(storage_id)}/"

    def _stored(self, base: str) -> Iterator[Tuple[str, int]]:
        for key, size in self._store.list(base):
            if key != base:
                yield key[len(base) :], size


def _clean_prefix(prefix: Optional[str]) -> str:
    cleaned = os.path.normpath(prefix).strip("/") if prefix else ""
    if cleaned.startswith(".."):
        raise ValueError(f"checkpoint_storage.prefix {prefix!r} may not contain '..'")
    return "" if cleaned in ("", ".") else cleaned + "/"


def _empty_directories(paths: Sequence[str]) -> List[str]:
    """Return the directories without files. They are stored as empty objects."""
    ordered = sorted(paths)
    following = [*ordered[1:], ""]
    return [
        path
        for path, next_path in zip(ordered, following)
        if path.endswith("/") and not next_path.startswith(path)
    ]


def _with_directories(stored: Dict[str, int]) -> Dict[str, int]:
    entries: Dict[str, int] = {}
    for path, size in stored.items():
        if path == CHECKSUMS:
            continue
        entries[path] = size
        parts = path.rstrip("/").split("/")[:-1]
        for depth in range(1, len(parts) + 1):
            entries["/".join(parts[:depth]) + "/"] = 0
    return dict(sorted(entries.items()))


def _make_folder(root: str, path: str) -> None:
    """Make the folder of a path. Other programs may write to the bucket, so keys that leave the target are rejected."""
    folder = os.path.realpath(os.path.join(root, path if path.endswith("/") else "./" + path))
    if folder != root and not folder.startswith(root + os.sep):
        raise ValueError(f"stored path {path!r} leads out of the checkpoint")
    os.makedirs(folder if path.endswith("/") else os.path.dirname(folder), exist_ok=True)
