"""The interface of every checkpoint storage."""

import abc
import contextlib
import os
import shutil
import tempfile
from typing import Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Union

StrPath = Union[str, "os.PathLike[str]"]
Selector = Callable[[str], bool]
Checksums = Dict[str, "FileChecksum"]


class FileChecksum:
    """The CRC-32 of each part of a file, so that parts can be checked and resumed by themselves."""

    def __init__(self, size: int, part_size: int, crcs: List[int]) -> None:
        self.size = size
        self.part_size = part_size
        self.crcs = crcs

    def to_json(self) -> Dict[str, object]:
        return {"size": self.size, "part_size": self.part_size, "crc32": self.crcs}

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> "FileChecksum":
        crcs = value["crc32"]
        if not isinstance(crcs, list):
            raise ValueError("a checksum entry has no list of part checksums")
        return cls(int(str(value["size"])), int(str(value["part_size"])), [int(c) for c in crcs])


class StorageManager(abc.ABC):
    """Keeps checkpoints as directories named by their id."""

    @abc.abstractmethod
    def upload(self, src: StrPath, dst: str, paths: Optional[Sequence[str]] = None) -> Checksums:
        """Store files of a directory (all, or those named) as checkpoint `dst`."""

    @abc.abstractmethod
    def download(self, src: str, dst: StrPath, selector: Optional[Selector] = None) -> None:
        """Fetch a checkpoint into a directory; the selector is asked before a byte moves."""

    @abc.abstractmethod
    def list(self, storage_id: str) -> Dict[str, int]:
        """Return the stored files and sizes; directories end with a slash and have size 0."""

    @abc.abstractmethod
    def delete(self, storage_id: str, globs: Sequence[str] = ("**/*",)) -> Dict[str, int]:
        """Delete the files that match; return what remains."""

    @abc.abstractmethod
    def write_checksums(self, storage_id: str, checksums: Checksums) -> None:
        """Keep the checksums with the checkpoint; storage that is a file system needs none."""

    def validate(self, storage_id: str = "") -> None:
        """Write, read and delete a probe: a trial that cannot save must not start training."""
        probe = storage_id or f"determined-storage-probe-{os.urandom(8).hex()}"
        with tempfile.TemporaryDirectory() as scratch:
            with open(os.path.join(scratch, "probe"), "w") as f:
                f.write("probe")
            self.upload(scratch, probe)
        self.delete(probe)

    @contextlib.contextmanager
    def store_path(self, dst: str) -> Iterator[str]:
        """Yield a directory to fill, stored as `dst` at the end of the block."""
        scratch = tempfile.mkdtemp(prefix="determined-save-")
        try:
            yield scratch
            self.upload(scratch, dst)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    @contextlib.contextmanager
    def restore_path(self, src: str, selector: Optional[Selector] = None) -> Iterator[str]:
        """Yield a directory with the checkpoint's files, for the time of the block."""
        scratch = tempfile.mkdtemp(prefix="determined-load-")
        try:
            self.download(src, scratch, selector)
            yield scratch
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def direct_path(self, storage_id: str) -> Optional[str]:
        """Return the checkpoint's directory if the storage is a file system mounted here."""
        return None

    def url(self, storage_id: str) -> str:
        """Return the address at which people find the checkpoint."""
        return storage_id


def check_storage_id(storage_id: str) -> str:
    """Return the id if it is valid: ids become paths and key prefixes, and none may climb out of the storage."""
    parts = storage_id.split("/")
    if not storage_id or any(p in ("", ".", "..") for p in parts) or "\\" in storage_id:
        raise ValueError(f"checkpoint id {storage_id!r} is not valid")
    return storage_id


def list_directory(root: StrPath) -> Dict[str, int]:
    """List files with sizes and directories (with a slash, size 0) below a directory."""
    base = os.fspath(root)
    found: Dict[str, int] = {}
    for folder, names, files in os.walk(base, followlinks=True):
        inside = os.path.relpath(folder, base)
        prefix = "" if inside == "." else inside.replace(os.sep, "/") + "/"
        for name in names:
            found[f"{prefix}{name}/"] = 0
        for name in files:
            found[prefix + name] = os.path.getsize(os.path.join(folder, name))
    return dict(sorted(found.items()))


def select(paths: Mapping[str, int], selector: Optional[Selector]) -> Dict[str, int]:
    """Apply a selector; directories that lead to a chosen file are kept."""
    if selector is None:
        return dict(paths)
    chosen = {p: size for p, size in paths.items() if selector(p)}
    for path in list(chosen):
        parts = path.rstrip("/").split("/")[:-1]
        for depth in range(1, len(parts) + 1):
            parent = "/".join(parts[:depth]) + "/"
            if parent in paths:
                chosen.setdefault(parent, 0)
    return dict(sorted(chosen.items()))
