"""Checkpoints in a directory: a mounted share, or any path of this machine."""

import contextlib
import os
import shutil
import tempfile
from typing import Any, Dict, Iterator, Optional, Sequence

from determined.common.storage import _base
from determined.common.storage._base import matches_any
from determined.common.storage._stored_file import LocalFile, closing

COPY_THREADS = 8


class DirectoryStorageManager(_base.StorageManager):
    """Storage of type `directory` or `shared_fs`. User code reads and writes the stored files in place."""

    def __init__(self, base_path: str) -> None:
        self._base = base_path

    def upload(
        self, src: _base.StrPath, dst: str, paths: Optional[Sequence[str]] = None
    ) -> _base.Checksums:
        target = self._path(dst)
        os.makedirs(target, exist_ok=True)
        _copy_tree(
            os.fspath(src), target, list(_base.list_directory(src)) if paths is None else paths
        )
        return {}

    def download(
        self, src: str, dst: _base.StrPath, selector: Optional[_base.Selector] = None
    ) -> None:
        source = self._existing(src)
        chosen = _base.select(self.list(src), selector)
        os.makedirs(dst, exist_ok=True)
        _copy_tree(source, os.fspath(dst), list(chosen))

    def list(self, storage_id: str) -> Dict[str, int]:
        return _base.list_directory(self._existing(storage_id))

    def delete(self, storage_id: str, globs: Sequence[str] = ("**/*",)) -> Dict[str, int]:
        root = self._path(storage_id)
        if not os.path.isdir(root):
            return {}
        files = _base.list_directory(root)
        for path in files:
            if not path.endswith("/") and matches_any(path, globs):
                os.unlink(os.path.join(root, path))
        return _drop_empty_directories(root)

    def write_checksums(self, storage_id: str, checksums: _base.Checksums) -> None:
        pass

    @contextlib.contextmanager
    def store_path(self, dst: str) -> Iterator[str]:
        target = self._path(dst)
        os.makedirs(target, exist_ok=True)
        try:
            yield target
        except BaseException:
            # An incomplete checkpoint is useless, and its id was never reported.
            shutil.rmtree(target, ignore_errors=True)
            raise

    @contextlib.contextmanager
    def restore_path(self, src: str, selector: Optional[_base.Selector] = None) -> Iterator[str]:
        yield self._existing(src)

    @contextlib.contextmanager
    def open_write(self, dst: str, path: str, expected_bytes: int = 0) -> Iterator[Any]:
        with closing(LocalFile(os.path.join(self._path(dst), path))) as file:
            yield file

    def read_range(
        self, src: str, path: str, start: int, length: int, crc: Optional[int] = None
    ) -> bytes:
        return _base.read_file_range(os.path.join(self._existing(src), path), start, length, crc)

    def direct_path(self, storage_id: str) -> Optional[str]:
        return self._path(storage_id)

    def url(self, storage_id: str) -> str:
        return f"file://{self._path(storage_id)}"

    def _path(self, storage_id: str) -> str:
        return os.path.join(self._base, _base.check_storage_id(storage_id))

    def _existing(self, storage_id: str) -> str:
        path = self._path(storage_id)
        if not os.path.isdir(path):
            raise FileNotFoundError(
                f"checkpoint {storage_id} is not in {self._base}; it was deleted, or this machine "
                "does not have the storage mounted"
            )
        return path


def join_within(base: str, host_path: str, storage_path: Optional[str]) -> str:
    """Join `storage_path` to `base`. It may be relative, or absolute below `host_path`, but not outside of it."""
    if not storage_path:
        return base
    relative = storage_path
    if os.path.isabs(storage_path):
        relative = os.path.relpath(storage_path, host_path)
    relative = os.path.normpath(relative)
    if relative == ".." or relative.startswith("../"):
        raise ValueError(
            f"checkpoint_storage.storage_path {storage_path} lies outside of host_path {host_path}"
        )
    return os.path.join(base, relative)


def _copy_tree(src: str, dst: str, paths: Sequence[str]) -> None:
    for path in paths:
        folder = path if path.endswith("/") else os.path.dirname(path)
        os.makedirs(os.path.join(dst, folder), exist_ok=True)
    files = [p for p in paths if not p.endswith("/")]

    def copy(path: str) -> None:
        _copy_file(os.path.join(src, path), os.path.join(dst, path))

    if len(files) == 1:
        copy(files[0])
        return
    from concurrent.futures import ThreadPoolExecutor  # not needed by a container's entry script

    with ThreadPoolExecutor(COPY_THREADS) as pool:
        list(pool.map(copy, files))


def _copy_file(src: str, dst: str) -> None:
    """Copy to a temporary file next to the target and rename it, so that readers never see half a file."""
    handle, scratch = tempfile.mkstemp(prefix=".partial-", dir=os.path.dirname(dst))
    os.close(handle)
    try:
        shutil.copyfile(src, scratch)
        shutil.copymode(src, scratch)
        os.replace(scratch, dst)
    except BaseException:
        os.unlink(scratch)
        raise


def _drop_empty_directories(root: str) -> Dict[str, int]:
    for folder, _, _ in os.walk(root, topdown=False):
        if not os.listdir(folder):
            os.rmdir(folder)
    return _base.list_directory(root) if os.path.isdir(root) else {}
