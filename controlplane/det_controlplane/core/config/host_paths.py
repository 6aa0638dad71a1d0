"""Check the access of tasks to their host: directories, devices, capabilities and variables of the agent."""

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from det_controlplane.core.problems import Problem
from det_controlplane.core.secrets import speaks_of_secrets

# A container with one of these directories, or with a parent of one, can take over the machine.
_CLOSED = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/root"),
    *("/run", "/sbin", "/snap", "/sys", "/usr", "/opt/determined"),
    *("/var/backups", "/var/cache", "/var/lib", "/var/lock", "/var/log", "/var/mail"),
    *("/var/run", "/var/spool"),
)
_OPEN = ("/dev/shm",)
# Devices for computing and fast networks. They give no access to disks or memory of the machine.
_ACCELERATORS = (
    "/dev/infiniband/",
    "/dev/nvidia",
    "/dev/dri/",
    "/dev/kfd",
    "/dev/accel/",
    "/dev/fuse",
    "/dev/net/tun",
)
# A container with one of these capabilities can escape, or read the network traffic of the machine.
_MACHINE_WIDE = frozenset(
    {
        *("ALL", "BPF", "DAC_READ_SEARCH", "NET_ADMIN", "NET_RAW", "PERFMON", "SYSLOG"),
        *("SYS_ADMIN", "SYS_BOOT", "SYS_MODULE", "SYS_RAWIO", "SYS_TIME"),
    }
)


@dataclass(frozen=True, slots=True)
class SharedHostAccess:
    """The access to hosts that administrators give to all tasks. `variables` are names in the agent's environment."""

    mounts: Sequence[Any] = ()
    devices: Sequence[Any] = ()
    capabilities: Sequence[str] = ()
    variables: Sequence[str] = ()


def problems(
    config: Mapping[str, Any], shared: SharedHostAccess, allowed: Sequence[str] | None
) -> Iterator[Problem]:
    """Yield the parts of a configuration that would give an ordinary user control over the machine."""
    trusted = [_path_of(mount) for mount in shared.mounts]
    for index, mount in enumerate(config.get("bind_mounts") or ()):
        path = _path_of(mount)
        if path not in trusted and not _is_allowed(path, allowed):
            yield Problem(f"bind_mounts[{index}].host_path", _message(path, allowed))
    storage = config.get("checkpoint_storage") or {}
    yield from of_storage(storage, shared.mounts, allowed, "checkpoint_storage.")
    yield from _devices(config.get("resources") or {}, shared, allowed)
    yield from _capabilities(config.get("environment") or {}, shared)
    for name in bare_names((config.get("environment") or {}).get("environment_variables")):
        if name not in shared.variables and speaks_of_secrets(name):
            message = (
                f"{name} of the agent's own environment is passed on by administrators only: give {name}=VALUE,"
                " or have task_container_defaults of the cluster name it for everybody"
            )
            yield Problem("environment.environment_variables", message)


def bare_names(variables: Any) -> list[str]:
    """Return the variables without a value. They get the value of the agent's environment."""
    lists = variables.values() if isinstance(variables, Mapping) else [variables]
    each = (v for entries in lists if isinstance(entries, list | tuple) for v in entries)
    return list(dict.fromkeys(v for v in each if isinstance(v, str) and "=" not in v))


def of_storage(
    storage: Mapping[str, Any], trusted: Sequence[Any], allowed: Sequence[str] | None, prefix: str
) -> Iterator[Problem]:
    """Yield the problems of a storage that is mounted into tasks."""
    path = _path_of(storage)
    trusted_paths = [_path_of(mount) for mount in trusted]
    if (
        storage.get("type") == "shared_fs"
        and path not in trusted_paths
        and not _is_allowed(path, allowed)
    ):
        yield Problem(f"{prefix}host_path", _message(path, allowed))


def _devices(
    resources: Mapping[str, Any], shared: SharedHostAccess, allowed: Sequence[str] | None
) -> Iterator[Problem]:
    trusted = [_path_of(_object(device)) for device in shared.devices]
    for index, device in enumerate(resources.get("devices") or ()):
        path = _path_of(_object(device))
        open_to_all = (
            path.startswith(_ACCELERATORS) if allowed is None else _is_below(path, allowed)
        )
        if path not in trusted and not open_to_all:
            yield Problem(f"resources.devices[{index}].host_path", _message(path, allowed))


def _object(device: Any) -> Any:
    return device_of_text(device) if isinstance(device, str) else device


def _capabilities(environment: Mapping[str, Any], shared: SharedHostAccess) -> Iterator[Problem]:
    trusted = {_plain(name) for name in shared.capabilities}
    for index, name in enumerate(environment.get("add_capabilities") or ()):
        if _plain(name) in _MACHINE_WIDE - trusted:
            message = f"{name} gives a container the machine: only administrators may add it"
            yield Problem(f"environment.add_capabilities[{index}]", message)


def _plain(capability: str) -> str:
    return capability.upper().removeprefix("CAP_")


def _path_of(mount: Any) -> str:
    path = mount.get("host_path") if isinstance(mount, Mapping) else None
    # normpath keeps two leading slashes, which mean the same as one.
    return "/" + posixpath.normpath(str(path or "")).lstrip("/")


def _is_allowed(path: str, allowed: Sequence[str] | None) -> bool:
    if allowed is not None:
        return _is_below(path, allowed)
    holds_closed = any(_is_below(closed, [path]) for closed in _CLOSED)
    return _is_below(path, _OPEN) or not (_is_below(path, _CLOSED) or holds_closed)


def _is_below(path: str, folders: Sequence[str]) -> bool:
    return any(PurePosixPath(path).is_relative_to(posixpath.normpath(f)) for f in folders)


def _message(path: str, allowed: Sequence[str] | None) -> str:
    if allowed is None:
        return f"{path} of the machine may only be mounted by administrators"
    paths = ", ".join(allowed) or "none"
    return f"{path} of the machine may not be mounted; the cluster allows {paths} (security.allowed_host_paths)"


def device_of_text(text: str) -> dict[str, str]:
    """Return the device as an object. Raises ValueError."""
    parts = text.split(":")
    if not all(parts) or len(parts) not in (2, 3):
        raise ValueError(
            "must be '/host:/container', '/host:/container:mode' or an object with "
            f"host_path and container_path, not {text!r}"
        )
    return dict(zip(("host_path", "container_path", "mode"), parts, strict=False))
