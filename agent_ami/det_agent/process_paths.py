"""Map the paths of a container to host paths on a machine without containers."""

import base64
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from det_controlplane.core.agent_protocol import ContainerSpec, TaskUser

from det_agent.environment import RUN_DIR


@dataclass(frozen=True)
class PathMap:
    """A map from container paths to host paths. The longest match applies."""

    entries: Mapping[str, str]

    def host(self, path: str) -> str:
        for prefix in sorted(self.entries, key=len, reverse=True):
            if path == prefix or path.startswith(prefix.rstrip("/") + "/"):
                return self.entries[prefix] + path[len(prefix.rstrip("/")) :]
        return path


def lay_out(spec: ContainerSpec, folder: Path) -> PathMap:
    """Create the container's directory tree with its files. Return the map of its paths."""
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
    """Create links for mounts inside of the container's own tree, such as data below the work directory."""
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
    """Give the folder's content to the task's user. Targets of links keep their owners."""
    if not may_switch_user(user):
        return
    for name in ("run", "files", "python"):
        for root, folders, files in os.walk(folder / name):
            for path in (root, *(os.path.join(root, f) for f in (*folders, *files))):
                os.chown(path, user.uid, user.gid, follow_symlinks=False)
