"""Translate a container specification into the Docker engine's own words."""

import base64
import io
import json
import posixpath
import tarfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from det_controlplane.core.agent_protocol import ContainerSpec, Slot
from docker.types import DeviceRequest, LogConfig, Mount, Ulimit

from det_agent.environment import RUN_DIR, assigned, python_path
from det_agent.harness_mount import DEPS_DIR, HARNESS_DIR, Payload
from det_agent.runtime import ContainerKey

LABEL = "ai.determined.container."
FABRIC = Path("/dev/infiniband")  # where EFA and InfiniBand have their devices
# Ubuntu's pip refuses to change the system's Python (PEP 668), which in a container belongs to the task alone.
_PIP = {"PIP_BREAK_SYSTEM_PACKAGES": "1"}
# Enough to look back on, and no way to fill the disk.
_LOG_CONFIG = {"max-size": "64m", "max-file": "4"}


def labels(
    key: ContainerKey, agent_id: str, cluster_id: str, ports: Sequence[int], owner: str = ""
) -> dict[str, str]:
    """Return the labels of a container. `owner` distinguishes agents with the same id and the same cluster id."""
    return {
        "ai.determined.type": "task",
        f"{LABEL}id": key.id,
        f"{LABEL}allocation_id": key.allocation_id,
        f"{LABEL}task_id": key.task_id,
        f"{LABEL}epoch": str(key.epoch),
        f"{LABEL}agent_id": agent_id,
        f"{LABEL}cluster_id": cluster_id,
        f"{LABEL}owner": owner,
        f"{LABEL}log_patterns": json.dumps(key.log_patterns),
        # The engine publishes none of a container that has the machine's network, so it remembers none.
        f"{LABEL}ports": json.dumps(list(ports)),
    }


def key_from(found: Mapping[str, str], env: Sequence[str]) -> ContainerKey:
    """Read a container's key from its labels, and its token from the environment: every listing shows labels."""
    variables = dict(line.partition("=")[::2] for line in env)
    return ContainerKey(
        id=found[f"{LABEL}id"],
        epoch=int(found[f"{LABEL}epoch"]),
        allocation_id=found[f"{LABEL}allocation_id"],
        task_id=found[f"{LABEL}task_id"],
        session_token=variables.get("DET_SESSION_TOKEN", ""),
        log_patterns=tuple(json.loads(found.get(f"{LABEL}log_patterns", "[]"))),
    )


def is_owned(found: Mapping[str, str], owner: str) -> bool:
    """Return whether a container belongs to an owner. Containers of earlier versions have no owner and always match."""
    return found.get(f"{LABEL}owner", owner) == owner


def ports_from(found: Mapping[str, str]) -> tuple[int, ...] | None:
    """Read the ports that `labels` wrote; None where an earlier version made the container."""
    told = found.get(f"{LABEL}ports")
    return None if told is None else tuple(json.loads(told))


def create_options(
    spec: ContainerSpec,
    env: Mapping[str, str],
    slots: Sequence[Slot],
    payload: Payload,
    host_parent: str = "",
) -> dict[str, Any]:
    """Return the arguments for `containers.create`, without name and labels.

    `host_parent` is the control group of containers in the machine's own network."""
    bridged = spec.network != "host"
    options: dict[str, Any] = {
        "image": spec.image,
        "command": list(spec.command),
        # The image's own entry point would swallow the command.
        "entrypoint": [],
        "environment": _environment(spec, env, payload),
        "working_dir": spec.work_dir,
        "mounts": _mounts(spec, payload),
        "network_mode": spec.network,
        "user": f"{spec.user.uid}:{spec.user.gid}",
        "cap_add": list(spec.cap_add),
        "cap_drop": _dropped(spec),
        "devices": [f"{d.host_path}:{d.container_path}:{d.mode}" for d in spec.devices],
        "init": True,
        "log_config": LogConfig(type="json-file", config=_LOG_CONFIG),
        "detach": True,
    }
    if spec.shm_size_bytes:
        options["shm_size"] = spec.shm_size_bytes
    if bridged:
        local = {f"{port}/tcp": ("127.0.0.1", None) for port in spec.local_ports}
        options["ports"] = {**local, **{f"{port}/tcp": None for port in spec.ports}}
    elif host_parent:
        options["cgroup_parent"] = host_parent
    options |= _gpus(spec, slots, options)
    return options | _fabric(spec, assigned(spec, slots), options)


def _dropped(spec: ContainerSpec) -> list[str]:
    """Return the capabilities that a container lacks, by default also the one to hear its neighbours.

    Engines give it to all, and tokens of others pass on the bridge, and on the machine's own network."""
    added = {name.upper().removeprefix("CAP_") for name in spec.cap_add}
    ours = [] if added & {"ALL", "NET_RAW"} else ["NET_RAW"]
    return list(dict.fromkeys([*spec.cap_drop, *ours]))


def _fabric(
    spec: ContainerSpec, slots: Sequence[Slot], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Give a part of a gang the machine's fast network (EFA, InfiniBand), which pins memory."""
    if spec.network != "host" or not slots or not FABRIC.is_dir():
        return {}
    devices = [*options["devices"], f"{FABRIC}:/dev/infiniband:rwm"]
    return {"devices": devices, "ulimits": [Ulimit(name="memlock", soft=-1, hard=-1)]}


def needs_archive(spec: ContainerSpec) -> bool:
    """Return whether files must be copied in. For root the engine makes the work directory, and a copy costs time."""
    return bool(spec.files) or spec.user.uid != 0


def files_archive(spec: ContainerSpec) -> bytes:
    """Pack the specification's files, and our directories on the way to them, for the task's user."""
    buffer = io.BytesIO()
    now = int(time.time())
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for directory in _our_directories(spec):
            tar.addfile(_entry(spec, directory, 0o755, now, tarfile.DIRTYPE))
        for file in spec.files:
            content = base64.b64decode(file.content_b64)
            entry = _entry(spec, file.path, file.mode, now, tarfile.REGTYPE)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def _environment(spec: ContainerSpec, env: Mapping[str, str], payload: Payload) -> dict[str, str]:
    added = {
        "DET_RUN_DIR": RUN_DIR,
        "DET_WORKDIR": spec.work_dir,
        "DET_IMAGE": spec.image,
        "PYTHONPATH": python_path(HARNESS_DIR, env.get("PYTHONPATH", "")),
    }
    if payload.dependencies:
        added["DET_DEPS_DIR"] = DEPS_DIR
    return {**_PIP, **env, **added}


def _mounts(spec: ContainerSpec, payload: Payload) -> list[Mount]:
    lent = {f"{HARNESS_DIR}/{name}": path for name, path in payload.packages.items()}
    lent |= {f"{DEPS_DIR}/{place}": path for place, path in payload.dependencies.items()}
    ours = [Mount(target, str(path), "bind", read_only=True) for target, path in lent.items()]
    theirs = [
        Mount(
            m.container_path,
            m.host_path,
            "bind",
            read_only=m.read_only,
            propagation=m.propagation,
        )
        for m in spec.mounts
    ]
    return ours + theirs


def _gpus(spec: ContainerSpec, slots: Sequence[Slot], options: Mapping[str, Any]) -> dict[str, Any]:
    mine = assigned(spec, slots)
    if any(slot.type == "cuda" for slot in mine):
        request = DeviceRequest(
            driver="nvidia",
            device_ids=[slot.uuid for slot in mine],
            capabilities=[["gpu", "compute", "utility"]],
        )
        return {"device_requests": [request]}
    if any(slot.type == "rocm" for slot in mine):
        visible = ",".join(str(slot.id) for slot in mine)
        return {
            "devices": [*options["devices"], "/dev/kfd:/dev/kfd:rwm", "/dev/dri:/dev/dri:rwm"],
            "group_add": ["video"],
            "environment": {**options["environment"], "ROCR_VISIBLE_DEVICES": visible},
        }
    if any(slot.type == "cuda" for slot in slots):
        # The NVIDIA runtime as the engine's default would show every GPU to a task that asked for none.
        return {"environment": {**options["environment"], "NVIDIA_VISIBLE_DEVICES": "void"}}
    return {}


def _our_directories(spec: ContainerSpec) -> list[str]:
    """List the directories below the run directory that files and work directory need, parents first."""
    leaves = [spec.work_dir, *(posixpath.dirname(f.path) for f in spec.files)]
    found = {RUN_DIR}
    for leaf in leaves:
        while leaf.startswith(RUN_DIR + "/"):
            found.add(leaf)
            leaf = posixpath.dirname(leaf)
    return sorted(found)


def _entry(spec: ContainerSpec, path: str, mode: int, mtime: int, kind: bytes) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(path.lstrip("/"))
    entry.type, entry.mode, entry.mtime = kind, mode, mtime
    entry.uid, entry.gid = spec.user.uid, spec.user.gid
    return entry
