"""The places of a container's paths on a machine without containers."""

import base64
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from det_controlplane.core.agent_protocol import ContainerSpec, TaskUser

from det_agent.environment import RUN_DIR


@dataclass(frozen=True)
class PathMap:
    """Container paths to host paths; the longest match wins."""

    entries: Mapping[str, str]

    def host(self, path: str) -> str:
        for known in sorted(self.entries, key=len, reverse=True):
            if path == known or path.startswith(known.rstrip("/") + "/"):
                return self.entries[known] + path[len(known.rstrip("/")) :]
        return path


def lay_out(spec: ContainerSpec, folder: Path) -> PathMap:
    """Make the container's directory tree with its files, and return where its paths lie."""
    run_dir = folder / "run"
    entries = {RUN_DIR: str(run_dir)}
    entries.update((m.container_path.rstrip("/") or "/", m.host_path) for m in spec.mounts)
    for file in spec.files:
        if PathMap(entries).host(file.path) == file.path:
            entries[file.path] = f"{folder}/files/{file.path.lstrip('/')}"
    paths = PathMap(entries)
    (run_dir / "workdir").mkdir(parents=True)
    for file in spec.files:
        _write_file(Path(paths.host(file.path)), base64.b64decode(file.content_b64), file.mode)
    work_dir = Path(paths.host(spec.work_dir))
    if folder in work_dir.parents:
        work_dir.mkdir(parents=True, exist_ok=True)
    _link_mounts(spec, run_dir)
    return paths


def _link_mounts(spec: ContainerSpec, run_dir: Path) -> None:
    """Link what is mounted inside the container's own tree, as data below the work directory may be."""
    for mount in spec.mounts:
        place = Path(PathMap({RUN_DIR: str(run_dir)}).host(mount.container_path))
        if run_dir in place.parents and not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(mount.host_path)


def may_switch_user(user: TaskUser) -> bool:
    return os.geteuid() == 0 and user.uid != 0


def _write_file(path: Path, content: bytes, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(fd, "wb") as f:
        f.write(content)
    path.chmod(mode)


def hand_over(folder: Path, user: TaskUser) -> None:
    """Give the task's user what is in the folder; what links point at belongs to others."""
    if not may_switch_user(user):
        return
    for name in ("run", "files", "python"):
        for root, folders, files in os.walk(folder / name):
            for path in (root, *(os.path.join(root, f) for f in (*folders, *files))):
                os.chown(path, user.uid, user.gid, follow_symlinks=False)
