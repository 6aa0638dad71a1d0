"""The directories with a cluster's checkpoints on this machine, and their paths in a backup and after a restore."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from det_controlplane.core.lifecycle.checkpoint import CheckpointState
from det_controlplane.db.cluster.backups import CheckpointFiles
from det_controlplane.entry.local.backup_archive import CHECKPOINTS, Directory

_SHARED_FS = "shared_fs"
_STORAGES = "storages"
_PARTIAL = ".partial-"  # prefix of files that the harness is still copying


@dataclass(frozen=True, slots=True)
class Source:
    """A file, symbolic link or empty folder for the archive."""

    name: str
    path: Path
    size: int
    is_folder: bool = False


@dataclass(frozen=True, slots=True)
class Storages:
    """The checkpoint directories of a cluster on this machine."""

    directories: tuple[Directory, ...]
    bases: tuple[tuple[Directory, Path], ...]  # folders within them that have checkpoints

    def member_of(self, storage: Mapping[str, Any]) -> str | None:
        """Return the archive's folder for checkpoints of a storage, or None if the storage is not on this machine."""
        base = _base(storage)
        for directory, own_base in self.bases:
            if base == own_base and storage["host_path"] == directory.path:
                return _member(directory, own_base)
        return None

    def path_of(self, name: str) -> str:
        """Return the path on this machine of a member of the archive."""
        for directory in self.directories:
            if name.startswith(f"{directory.member}/"):
                return directory.path + name.removeprefix(directory.member)
        raise ValueError(name)

    def sources(self, uploading: frozenset[str]) -> Iterator[Source]:
        """Return all files of the storages, except checkpoints that are being uploaded.

        Checkpoints, results of batch inference and TensorBoard files are in folders with UUIDs as names."""
        for directory, base in self.bases:
            for entry in sorted(os.scandir(base), key=lambda e: e.name):
                if (
                    _is_uuid(entry.name)
                    and entry.is_dir(follow_symlinks=False)
                    and entry.name not in uploading
                ):
                    yield from walk(Path(entry.path), f"{_member(directory, base)}/{entry.name}")


def storages_of(named: Iterable[Mapping[str, Any]], folder: Path) -> Storages:
    """Select a cluster's storages that are on this machine; `folder` is its data directory."""
    directories: dict[str, Directory] = {}
    bases: dict[tuple[str, Path], None] = {}
    for storage in named:
        base, path = _base(storage), str(storage.get("host_path"))
        if base is None or not (Path(path).is_dir() or Path(path).is_relative_to(folder)):
            continue
        directories.setdefault(path, Directory(path, f"{CHECKPOINTS}/{len(directories)}"))
        if base.is_dir():
            bases[path, base] = None
    return Storages(
        tuple(directories.values()), tuple((directories[path], base) for path, base in bases)
    )


def elsewhere(files: Iterable[CheckpointFiles], storages: Storages) -> dict[str, int]:
    """Count the checkpoints that a backup does not copy, by location."""
    return dict(
        Counter(
            _place(c.storage)
            for c in files
            if c.state is not CheckpointState.ACTIVE and storages.member_of(c.storage) is None
        )
    )


def new_paths(
    directories: Iterable[Directory], folder: Path, target: Path, *, with_files: bool
) -> dict[Directory, Path]:
    """Return the new paths of checkpoint directories in a restored cluster.

    A directory inside the data directory keeps its relative path. A directory outside of it moves into the new data
    directory, because the original may still use it. Without its files in the backup, it keeps its path."""
    paths: dict[Directory, Path] = {}
    for directory in directories:
        path = Path(directory.path)
        if path.is_relative_to(folder):
            paths[directory] = target / path.relative_to(folder)
        elif with_files:
            paths[directory] = target / _STORAGES / directory.member.rpartition("/")[2]
    return paths


def relocated(value: Any, paths: Mapping[str, str]) -> Any:
    """Return a configuration with the new paths of all moved storages."""
    if isinstance(value, list):
        return [relocated(item, paths) for item in value]
    if not isinstance(value, dict):
        return value
    result = {key: relocated(item, paths) for key, item in value.items()}
    host_path, inner = str(value.get("host_path")), value.get("storage_path")
    if value.get("type") != _SHARED_FS or host_path not in paths:
        return result
    result["host_path"] = paths[host_path]
    if isinstance(inner, str) and Path(inner).is_absolute():
        result["storage_path"] = str(Path(paths[host_path]) / Path(inner).relative_to(host_path))
    return result


def walk(folder: Path, name: str) -> Iterator[Source]:
    """Yield the files, symbolic links and empty folders below a folder. Skip files that are deleted during the walk."""
    try:
        entries = sorted(os.scandir(folder), key=lambda e: e.name)
    except FileNotFoundError:
        return
    if not entries:
        yield Source(name, folder, 0, is_folder=True)
    for entry in entries:
        inner, path = f"{name}/{entry.name}", Path(entry.path)
        if entry.is_dir(follow_symlinks=False):
            yield from walk(path, inner)
        elif not entry.name.startswith(_PARTIAL) and (
            entry.is_file(follow_symlinks=False) or entry.is_symlink()
        ):
            try:
                yield Source(inner, path, entry.stat(follow_symlinks=False).st_size)
            except FileNotFoundError:
                continue


def _base(storage: Mapping[str, Any]) -> Path | None:
    """Return the directory with the checkpoints of a storage, or None if it is another type of storage."""
    host_path, inner = storage.get("host_path"), storage.get("storage_path")
    if storage.get("type") != _SHARED_FS or not isinstance(host_path, str):
        return None
    base = Path(os.path.normpath(Path(host_path) / (inner or "")))
    return base if base.is_relative_to(host_path) else None


def _member(directory: Directory, base: Path) -> str:
    relative = base.relative_to(directory.path)
    return f"{directory.member}/{relative}" if relative.parts else directory.member


def _is_uuid(name: str) -> bool:
    try:
        return str(UUID(name)) == name
    except ValueError:
        return False


def _place(storage: Mapping[str, Any]) -> str:
    kind = str(storage.get("type") or "an unknown storage")
    if kind in ("s3", "gcs"):
        scheme = "s3" if kind == "s3" else "gs"
        return "/".join(
            filter(
                None,
                (
                    f"{scheme}://{storage.get('bucket')}",
                    str(storage.get("prefix") or "").strip("/"),
                ),
            )
        )
    if kind == "azure":
        return f"azure container {storage.get('container')}"
    base = _base(storage)
    return f"{kind} {base or storage.get('container_path') or ''}".strip()
