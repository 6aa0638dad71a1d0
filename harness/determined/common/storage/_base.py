"""The interface of every checkpoint storage, and the glob patterns that select stored files."""

import abc
import contextlib
import functools
import os
import re
import shutil
import tempfile
from typing import (
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    Mapping,
    Optional,
    Pattern,
    Sequence,
    Tuple,
    Union,
)

from determined.common.storage._parts import crc32
from determined.common.storage._stored_file import LocalFile, closing
from determined.errors import CheckpointCorrupt

StrPath = Union[str, "os.PathLike[str]"]
Selector = Callable[[str], bool]
Checksums = Dict[str, "FileChecksum"]


class FileChecksum:
    """The CRC-32 of each part of a file, so that each part can be verified and resumed separately.

    `pieces` has the CRC-32 of ranges that are read alone, such as shards of tensors, by their first byte.
    """

    def __init__(
        self, size: int, part_size: int, crcs: List[int], pieces: Optional[Dict[int, int]] = None
    ) -> None:
        self.size = size
        self.part_size = part_size
        self.crcs = crcs
        self.pieces = pieces or {}

    def to_json(self) -> Dict[str, object]:
        whole = {"size": self.size, "part_size": self.part_size, "crc32": self.crcs}
        return {**whole, "pieces": list(self.pieces.items())} if self.pieces else whole

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> "FileChecksum":
        crcs = value["crc32"]
        if not isinstance(crcs, list):
            raise ValueError("a checksum entry has no list of part checksums")
        pieces: Any = value.get("pieces") or []
        return cls(
            int(str(value["size"])),
            int(str(value["part_size"])),
            [int(c) for c in crcs],
            {int(start): int(crc) for start, crc in pieces},
        )


class StorageManager(abc.ABC):
    """A store of checkpoints, each a directory with the checkpoint id as its name."""

    # `storage.from_config` and its argument, if it made this storage. Another process can then make it again.
    origin: Optional[Tuple[Callable[..., "StorageManager"], Mapping[str, Any]]] = None

    @abc.abstractmethod
    def upload(self, src: StrPath, dst: str, paths: Optional[Sequence[str]] = None) -> Checksums:
        """Store the files of a directory (all, or `paths`) as checkpoint `dst`."""

    @abc.abstractmethod
    def download(self, src: str, dst: StrPath, selector: Optional[Selector] = None) -> None:
        """Fetch a checkpoint into a directory. Files that `selector` rejects are not transferred."""

    @abc.abstractmethod
    def list(self, storage_id: str) -> Dict[str, int]:
        """Return the stored files with their sizes. Directories end with a slash and have size 0."""

    @abc.abstractmethod
    def delete(self, storage_id: str, globs: Sequence[str] = ("**/*",)) -> Dict[str, int]:
        """Delete the matching files and return the remaining files."""

    @abc.abstractmethod
    def write_checksums(self, storage_id: str, checksums: Checksums) -> None:
        """Store the checksums with the checkpoint. File systems do not need them."""

    def validate(self, storage_id: str = "") -> None:
        """Write and delete a probe, so that a trial that cannot save fails before it trains."""
        probe = storage_id or f"determined-storage-probe-{os.urandom(8).hex()}"
        with tempfile.TemporaryDirectory() as scratch:
            with open(os.path.join(scratch, "probe"), "w") as f:
                f.write("probe")
            self.upload(scratch, probe)
        self.delete(probe)

    @contextlib.contextmanager
    def store_path(self, dst: str) -> Iterator[str]:
        """Yield an empty directory. Its content is stored as `dst` when the block ends."""
        scratch = tempfile.mkdtemp(prefix="determined-save-")
        try:
            yield scratch
            self.upload(scratch, dst)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    @contextlib.contextmanager
    def restore_path(self, src: str, selector: Optional[Selector] = None) -> Iterator[str]:
        """Yield a directory with the checkpoint's files. It is removed when the block ends."""
        scratch = tempfile.mkdtemp(prefix="determined-load-")
        try:
            self.download(src, scratch, selector)
            yield scratch
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    @contextlib.contextmanager
    def open_write(self, dst: str, path: str, expected_bytes: int = 0) -> Iterator[Any]:
        """Yield a file (`determined.common.storage._stored_file.StoredFile`) that is stored while it is written."""
        with tempfile.TemporaryDirectory(prefix="determined-save-") as scratch:
            file = LocalFile(os.path.join(scratch, path))
            with closing(file):
                yield file
            file.checksum = self.upload(scratch, dst, [path]).get(path)

    def read_range(
        self, src: str, path: str, start: int, length: int, crc: Optional[int] = None
    ) -> bytes:
        """Return a range of a stored file. Raise CheckpointCorrupt if it is shorter or has another CRC-32."""
        with self.restore_path(src, lambda p: p == path) as folder:
            return read_file_range(os.path.join(folder, path), start, length, crc)

    def read_checksums(self, storage_id: str) -> Checksums:
        """Return the stored checksums. File systems do not have them."""
        return {}

    def direct_path(self, storage_id: str) -> Optional[str]:
        """Return the checkpoint's directory if the storage is a file system that is mounted here, otherwise None."""
        return None

    def url(self, storage_id: str) -> str:
        """Return the address of the checkpoint for users."""
        return storage_id


def read_file_range(path: str, start: int, length: int, crc: Optional[int]) -> bytes:
    with open(path, "rb") as f:
        f.seek(start)
        return check_range(f.read(length), path, start, length, crc)


def check_range(body: bytes, where: str, start: int, length: int, crc: Optional[int]) -> bytes:
    if len(body) != length:
        raise CheckpointCorrupt(
            f"{where} ends within bytes {start} to {start + length} that were saved"
        )
    if crc is not None and crc32(body) != crc:
        raise CheckpointCorrupt(
            f"bytes {start} to {start + length} of {where} differ from what was saved"
        )
    return body


def check_storage_id(storage_id: str) -> str:
    """Return the id if it is valid. Ids become paths and key prefixes, so they must not lead out of the storage."""
    parts = storage_id.split("/")
    if not storage_id or any(p in ("", ".", "..") for p in parts) or "\\" in storage_id:
        raise ValueError(f"checkpoint id {storage_id!r} is not valid")
    return storage_id


def list_directory(root: StrPath) -> Dict[str, int]:
    """Return the files below a directory with their sizes, and the directories with a slash and size 0."""
    base = os.fspath(root)
    entries: Dict[str, int] = {}
    for folder, names, files in os.walk(base, followlinks=True):
        inside = os.path.relpath(folder, base)
        prefix = "" if inside == "." else inside.replace(os.sep, "/") + "/"
        for name in names:
            entries[f"{prefix}{name}/"] = 0
        for name in files:
            entries[prefix + name] = os.path.getsize(os.path.join(folder, name))
    return dict(sorted(entries.items()))


def select(paths: Mapping[str, int], selector: Optional[Selector]) -> Dict[str, int]:
    """Apply a selector. Parent directories of selected files are included."""
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


def matches_any(path: str, globs: Sequence[str]) -> bool:
    return any(_compile_glob(glob).fullmatch(path) for glob in globs)


@functools.lru_cache(maxsize=256)
def _compile_glob(glob: str) -> Pattern[str]:
    pattern = glob + "**/*" if glob.endswith("/") else glob
    out = ""
    i = 0
    while i < len(pattern):
        if pattern.startswith("**/", i):
            out, i = out + "(?:.*/)?", i + 3
        elif pattern.startswith("**", i):
            out, i = out + ".*", i + 2
        elif pattern[i] == "*":
            out, i = out + "[^/]*", i + 1
        elif pattern[i] == "?":
            out, i = out + "[^/]", i + 1
        elif pattern[i] == "[" and "]" in pattern[i + 2 :]:
            end = pattern.index("]", i + 2)
            body = pattern[i + 1 : end].replace("\\", "\\\\")
            out, i = out + "[" + ("^" + body[1:] if body[0] == "!" else body) + "]", end + 1
        else:
            out, i = out + re.escape(pattern[i]), i + 1
    return re.compile(out)
