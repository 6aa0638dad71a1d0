"""Decide which directories of a machine the tasks of ordinary users may have mounted."""

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from det_controlplane.core.problems import Problem

# With one of these a container has the machine, or the engine that runs all containers of it.
_CLOSED = (
    "/etc",
    "/root",
    "/boot",
    "/proc",
    "/sys",
    "/dev",
    "/run",
    "/var/run",
    "/var/lib/docker",
    "/var/lib/containerd",
)
_OPEN = ("/dev/shm",)


def problems(
    config: Mapping[str, Any], own: Sequence[Any], allowed: Sequence[str] | None
) -> Iterator[Problem]:
    """Yield what an ordinary user may not mount; `own` are the mounts that administrators gave."""
    trusted = [_path_of(mount) for mount in own]
    for index, mount in enumerate(config.get("bind_mounts") or ()):
        path = _path_of(mount)
        if path not in trusted and not _is_allowed(path, allowed):
            yield Problem(f"bind_mounts[{index}].host_path", _message(path, allowed))
    storage = config.get("checkpoint_storage") or {}
    path = _path_of(storage)
    if (
        storage.get("type") == "shared_fs"
        and path not in trusted
        and not _is_allowed(path, allowed)
    ):
        yield Problem("checkpoint_storage.host_path", _message(path, allowed))


def _path_of(mount: Any) -> str:
    given = mount.get("host_path") if isinstance(mount, Mapping) else None
    # Two leading slashes are kept by normpath, and mean the same.
    return "/" + posixpath.normpath(str(given or "")).lstrip("/")


def _is_allowed(path: str, allowed: Sequence[str] | None) -> bool:
    if allowed is not None:
        return _is_below(path, allowed)
    return path != "/" and (_is_below(path, _OPEN) or not _is_below(path, _CLOSED))


def _is_below(path: str, folders: Sequence[str]) -> bool:
    return any(PurePosixPath(path).is_relative_to(posixpath.normpath(f)) for f in folders)


def _message(path: str, allowed: Sequence[str] | None) -> str:
    if allowed is None:
        return f"{path} of the machine may only be mounted by administrators"
    known = ", ".join(allowed) or "none"
    return f"{path} of the machine may not be mounted; the cluster allows {known} (security.allowed_host_paths)"
