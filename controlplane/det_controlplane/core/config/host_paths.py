"""Decide what of a machine the tasks of ordinary users may have: directories, devices, capabilities, variables."""

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from det_controlplane.core.config.devices import device_of_text
from det_controlplane.core.problems import Problem
from det_controlplane.core.secrets import speaks_of_secrets

# With one of these, or what it lies in, a container has the machine: its programs, its settings, and what runs there.
_CLOSED = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/root"),
    *("/run", "/sbin", "/snap", "/sys", "/usr", "/opt/determined"),
    *("/var/backups", "/var/cache", "/var/lib", "/var/lock", "/var/log", "/var/mail"),
    *("/var/run", "/var/spool"),
)
_OPEN = ("/dev/shm",)
# Devices for computing and for fast networks, which reach no disk and no memory of the machine.
_ACCELERATORS = (
    "/dev/infiniband/",
    "/dev/nvidia",
    "/dev/dri/",
    "/dev/kfd",
    "/dev/accel/",
    "/dev/fuse",
    "/dev/net/tun",
)
# With one of these, code leaves its container, or hears what others of its machine say to their agent.
_MACHINE_WIDE = frozenset(
    {
        *("ALL", "BPF", "DAC_READ_SEARCH", "NET_ADMIN", "NET_RAW", "PERFMON", "SYSLOG"),
        *("SYS_ADMIN", "SYS_BOOT", "SYS_MODULE", "SYS_RAWIO", "SYS_TIME"),
    }
)


@dataclass(frozen=True, slots=True)
class SharedHostAccess:
    """Hold the parts of a machine that administrators give to all tasks; variables are names of the agent's own."""

    mounts: Sequence[Any] = ()
    devices: Sequence[Any] = ()
    capabilities: Sequence[str] = ()
    variables: Sequence[str] = ()


def problems(
    config: Mapping[str, Any], given: SharedHostAccess, allowed: Sequence[str] | None
) -> Iterator[Problem]:
    """Yield the parts of a configuration by which an ordinary user's code would get hold of the machine."""
    trusted = [_path_of(mount) for mount in given.mounts]
    for index, mount in enumerate(config.get("bind_mounts") or ()):
        path = _path_of(mount)
        if path not in trusted and not _is_allowed(path, allowed):
            yield Problem(f"bind_mounts[{index}].host_path", _message(path, allowed))
    storage = config.get("checkpoint_storage") or {}
    yield from of_storage(storage, given.mounts, allowed, "checkpoint_storage.")
    yield from _devices(config.get("resources") or {}, given, allowed)
    yield from _capabilities(config.get("environment") or {}, given)
    for name in bare_names((config.get("environment") or {}).get("environment_variables")):
        if name not in given.variables and speaks_of_secrets(name):
            message = (
                f"{name} of the agent's own environment is passed on by administrators only: give {name}=VALUE,"
                " or have task_container_defaults of the cluster name it for everybody"
            )
            yield Problem("environment.environment_variables", message)


def bare_names(variables: Any) -> list[str]:
    """Return the variables that are given without a value: they have that of the agent."""
    lists = variables.values() if isinstance(variables, Mapping) else [variables]
    each = (v for found in lists if isinstance(found, list | tuple) for v in found)
    return list(dict.fromkeys(v for v in each if isinstance(v, str) and "=" not in v))


def of_storage(
    storage: Mapping[str, Any], trusted: Sequence[Any], allowed: Sequence[str] | None, prefix: str
) -> Iterator[Problem]:
    """Yield the problems of a storage that is mounted into tasks."""
    path = _path_of(storage)
    known = [_path_of(mount) for mount in trusted]
    if storage.get("type") == "shared_fs" and path not in known and not _is_allowed(path, allowed):
        yield Problem(f"{prefix}host_path", _message(path, allowed))


def _devices(
    resources: Mapping[str, Any], given: SharedHostAccess, allowed: Sequence[str] | None
) -> Iterator[Problem]:
    trusted = [_path_of(_object(device)) for device in given.devices]
    for index, device in enumerate(resources.get("devices") or ()):
        path = _path_of(_object(device))
        open_to_all = (
            path.startswith(_ACCELERATORS) if allowed is None else _is_below(path, allowed)
        )
        if path not in trusted and not open_to_all:
            yield Problem(f"resources.devices[{index}].host_path", _message(path, allowed))


def _object(device: Any) -> Any:
    return device_of_text(device) if isinstance(device, str) else device


def _capabilities(environment: Mapping[str, Any], given: SharedHostAccess) -> Iterator[Problem]:
    trusted = {_plain(name) for name in given.capabilities}
    for index, name in enumerate(environment.get("add_capabilities") or ()):
        if _plain(name) in _MACHINE_WIDE - trusted:
            message = f"{name} gives a container the machine: only administrators may add it"
            yield Problem(f"environment.add_capabilities[{index}]", message)


def _plain(capability: str) -> str:
    return capability.upper().removeprefix("CAP_")


def _path_of(mount: Any) -> str:
    given = mount.get("host_path") if isinstance(mount, Mapping) else None
    # Two leading slashes are kept by normpath, and mean the same.
    return "/" + posixpath.normpath(str(given or "")).lstrip("/")


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
    known = ", ".join(allowed) or "none"
    return f"{path} of the machine may not be mounted; the cluster allows {known} (security.allowed_host_paths)"
