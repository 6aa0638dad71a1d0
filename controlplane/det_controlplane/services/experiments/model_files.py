"""Show the files of an experiment's model definition, as a tree and one by one."""

import io
import mimetypes
import tarfile
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from det_controlplane.services.context import Context
from det_controlplane.services.errors import Missing, Oversized
from det_controlplane.services.experiments import model_definitions

MAX_SHOWN = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class FileContent:
    path: str
    content: bytes


def tree(ctx: Context, experiment_id: int) -> list[dict[str, Any]]:
    """Return the files nested by directory, in the order of names."""
    root: dict[str, Any] = {"path": "", "files": []}
    nodes: dict[str, dict[str, Any]] = {"": root}
    for member in _members(_archive(ctx, experiment_id)):
        _add(nodes, member.name, member.size, member.mtime, member.isdir())
    return list(root["files"])


def file(ctx: Context, experiment_id: int, path: str) -> FileContent:
    content = _archive(ctx, experiment_id)
    wanted = path.strip("/")
    if content:
        with tarfile.open(fileobj=io.BytesIO(content)) as tar:
            for member in tar:
                if member.isfile() and member.name.strip("/") == wanted:
                    if member.size > MAX_SHOWN:
                        raise Oversized(
                            f"'{path}' has {member.size >> 20} MiB; files of up to {MAX_SHOWN >> 20} MiB are shown."
                            f" 'det experiment download-model-def {experiment_id}' fetches all of them"
                        )
                    stream = tar.extractfile(member)
                    return FileContent(wanted, stream.read() if stream else b"")
    raise Missing(f"experiment {experiment_id} has no file '{path}' in its model definition")


def _archive(ctx: Context, experiment_id: int) -> bytes:
    """Return the archive; it may have been uploaded before archives were looked through."""
    content = model_definitions.of_experiment(ctx, experiment_id).content
    if content:
        model_definitions.require_bearable(content)
    return content


def _members(content: bytes) -> list[tarfile.TarInfo]:
    if not content:
        return []
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        return sorted(tar.getmembers(), key=lambda m: m.name)


def _add(
    nodes: dict[str, dict[str, Any]], path: str, size: int, mtime: float, is_dir: bool
) -> dict[str, Any]:
    path = path.strip("/")
    if path in nodes:
        return nodes[path]
    folder, _, name = path.rpartition("/")
    parent = nodes.get(folder) or _add(nodes, folder, 0, mtime, True)
    kind = "" if is_dir else mimetypes.guess_type(name)[0] or "text/plain"
    node: dict[str, Any] = {
        "path": path, "name": name, "isDir": is_dir, "contentLength": size, "contentType": kind,
        "modifiedTime": _time(mtime), "files": [],
    }  # fmt: skip
    nodes[path] = node
    parent["files"].append(node)
    return node


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat().replace("+00:00", "Z")
