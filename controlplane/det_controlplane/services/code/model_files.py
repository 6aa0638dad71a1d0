"""Show the files of an experiment's model definition, as a tree and one by one."""

import io
import mimetypes
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from det_controlplane.services.code import model_definitions
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, Missing, Oversized

MAX_SHOWN = 16 * 1024 * 1024
# Limit for a tree: a few files can be in very many folders, and each folder has the names of its parents.
MAX_NODES, MAX_PATHS, _DEEPEST = 100_000, 16 * 1024 * 1024, 200
_YEAR_10000 = 253_402_300_800


@dataclass(frozen=True, slots=True)
class FileContent:
    path: str
    content: bytes


def tree(ctx: Context, experiment_id: int) -> list[dict[str, Any]]:
    """Return the files nested by directory, in the order of names."""
    root = _Tree(experiment_id)
    for member in _members(_archive(ctx, experiment_id)):
        root.add(member.name, member.size, member.mtime, member.isdir())
    return root.files


def file(ctx: Context, experiment_id: int, path: str) -> FileContent:
    content = _archive(ctx, experiment_id)
    name = path.strip("/")
    if content:
        with _open_archive(content) as tar:
            for member in tar:
                if member.isfile() and member.name.strip("/") == name:
                    if member.size > MAX_SHOWN:
                        raise Oversized(
                            f"'{path}' has {member.size >> 20} MiB; files of up to {MAX_SHOWN >> 20} MiB are shown."
                            f" 'det experiment download-model-def {experiment_id}' fetches all of them"
                        )
                    stream = tar.extractfile(member)
                    return FileContent(name, stream.read() if stream else b"")
    raise Missing(f"experiment {experiment_id} has no file '{path}' in its model definition")


def _archive(ctx: Context, experiment_id: int) -> bytes:
    """Return the archive. It may have been uploaded by a version that did not check archives."""
    content = model_definitions.of_experiment(ctx, experiment_id).content
    if content:
        model_definitions.require_bearable(content)
    return content


def _members(content: bytes) -> list[tarfile.TarInfo]:
    if not content:
        return []
    with _open_archive(content) as tar:
        return sorted(tar.getmembers(), key=lambda m: m.name)


@contextmanager
def _open_archive(content: bytes) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(fileobj=io.BytesIO(content)) as tar:
            yield tar
    except (tarfile.TarError, ValueError, EOFError) as e:
        raise Invalid(f"the archive of the model definition cannot be read: {e}") from e


class _Tree:
    """The files read so far by path, and the top-level files."""

    def __init__(self, experiment_id: int) -> None:
        self._experiment_id = experiment_id
        self.files: list[dict[str, Any]] = []
        self._nodes: dict[str, dict[str, Any]] = {"": {"files": self.files}}
        self._paths = 0  # characters

    def add(self, path: str, size: int, mtime: float, is_dir: bool) -> dict[str, Any]:
        """Add a file with the folders that it lies in."""
        path = path.strip("/")
        if path in self._nodes:
            return self._nodes[path]
        self._take(path)
        folder, _, name = path.rpartition("/")
        parent = self._nodes.get(folder) or self.add(folder, 0, mtime, True)
        kind = "" if is_dir else mimetypes.guess_type(name)[0] or "text/plain"
        node: dict[str, Any] = {
            "path": path, "name": name, "isDir": is_dir, "contentLength": size, "contentType": kind,
            "modifiedTime": _time(mtime), "files": [],
        }  # fmt: skip
        self._nodes[path] = node
        parent["files"].append(node)
        return node

    def _take(self, path: str) -> None:
        """Refuse a tree that would take more memory than allowed."""
        self._paths += len(path)
        is_deep = path.count("/") >= _DEEPEST
        if is_deep or self._paths > MAX_PATHS or len(self._nodes) > MAX_NODES:
            raise Oversized(
                f"the files of experiment {self._experiment_id} lie in too many folders to be shown:"
                f" 'det experiment download-model-def {self._experiment_id}' fetches all of them"
            )


def _time(seconds: float) -> str:
    timestamp = seconds if 0 <= seconds < _YEAR_10000 else 0
    return datetime.fromtimestamp(timestamp, timezone.utc).isoformat().replace("+00:00", "Z")
