"""Translate a container specification to options of the Docker engine."""

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
FABRIC = Path("/dev/infiniband")  # the devices of EFA and InfiniBand
# Ubuntu's pip refuses to change the system's Python (PEP 668). In a container, this Python belongs to the task.
_PIP = {"PIP_BREAK_SYSTEM_PACKAGES": "1"}
# These limits keep recent output without filling the disk.
_LOG_CONFIG = {"max-size": "64m", "max-file": "4"}


def labels(
    key: ContainerKey,
    agent_id: str,
    cluster_id: str,
    ports: Sequence[int],
    owner: str = "",
    slot_ids: Sequence[int] = (),
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
        # The engine does not record the ports of a container in the host's network.
        f"{LABEL}ports": json.dumps(list(ports)),
        f"{LABEL}slot_ids": json.dumps(list(slot_ids)),
    }


def key_from(labels_by_name: Mapping[str, str], env: Sequence[str]) -> ContainerKey:
    """Read a container's key from its labels. Its token is in the environment, because listings show labels."""
    variables = dict(line.partition("=")[::2] for line in env)
    return ContainerKey(
        id=labels_by_name[f"{LABEL}id"],
        epoch=int(labels_by_name[f"{LABEL}epoch"]),
        allocation_id=labels_by_name[f"{LABEL}allocation_id"],
        task_id=labels_by_name[f"{LABEL}task_id"],
        session_token=variables.get("DET_SESSION_TOKEN", ""),
        log_patterns=tuple(json.loads(labels_by_name.get(f"{LABEL}log_patterns", "[]"))),
    )


def is_owned(labels_by_name: Mapping[str, str], owner: str) -> bool:
    """Return whether a container belongs to an owner. Containers of earlier versions have no owner and always match."""
    return labels_by_name.get(f"{LABEL}owner", owner) == owner


def ports_from(labels_by_name: Mapping[str, str]) -> tuple[int, ...] | None:
    """Read the ports from the labels. Return None for a container of an earlier version."""
    ports = labels_by_name.get(f"{LABEL}ports")
    return None if ports is None else tuple(json.loads(ports))


def slot_ids_from(labels_by_name: Mapping[str, str]) -> tuple[int, ...]:
    """Read the slots from the labels. Containers of earlier versions do not have them."""
    return tuple(json.loads(labels_by_name.get(f"{LABEL}slot_ids", "[]")))


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
        # The image's entry point must not receive the command as arguments.
        "entrypoint": [],
        "environment": _environment(spec, env, payload),
        "working_dir": spec.work_dir,
        "mounts": _mounts(spec, payload),
        "network_mode": spec.network,
        "user": f"{spec.user.uid}:{spec.user.gid}",
        "cap_add": list(spec.cap_add),
        "cap_drop": _dropped_capabilities(spec),
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


def _dropped_capabilities(spec: ContainerSpec) -> list[str]:
    """Return the dropped capabilities. NET_RAW is dropped by default.

    With it, containers could read traffic with tokens of other containers on the bridge or the host's network."""
    added = {name.upper().removeprefix("CAP_") for name in spec.cap_add}
    ours = [] if added & {"ALL", "NET_RAW"} else ["NET_RAW"]
    return list(dict.fromkeys([*spec.cap_drop, *ours]))


def _fabric(
    spec: ContainerSpec, slots: Sequence[Slot], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Give a multi-agent task the machine's fast network (EFA, InfiniBand), which needs locked memory."""
    if spec.network != "host" or not slots or not FABRIC.is_dir():
        return {}
    devices = [*options["devices"], f"{FABRIC}:/dev/infiniband:rwm"]
    return {"devices": devices, "ulimits": [Ulimit(name="memlock", soft=-1, hard=-1)]}


def needs_archive(spec: ContainerSpec) -> bool:
    """Return whether files must be copied in. The engine creates the work directory for root, and a copy takes time."""
    return bool(spec.files) or spec.user.uid != 0


def files_archive(spec: ContainerSpec) -> bytes:
    """Pack the specification's files and their directories for the task's user."""
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
    payload_mounts = {f"{HARNESS_DIR}/{name}": path for name, path in payload.packages.items()}
    payload_mounts |= {f"{DEPS_DIR}/{place}": path for place, path in payload.dependencies.items()}
    own_mounts = [
        Mount(target, str(path), "bind", read_only=True) for target, path in payload_mounts.items()
    ]
    task_mounts = [
        Mount(
            m.container_path,
            m.host_path,
            "bind",
            read_only=m.read_only,
            propagation=m.propagation,
        )
        for m in spec.mounts
    ]
    return own_mounts + task_mounts


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
        # If the NVIDIA runtime is the engine's default, tasks without slots would see every GPU.
        return {"environment": {**options["environment"], "NVIDIA_VISIBLE_DEVICES": "void"}}
    return {}


def _our_directories(spec: ContainerSpec) -> list[str]:
    """Return the directories below the run directory for the files and the work directory, parents first."""
    leaves = [spec.work_dir, *(posixpath.dirname(f.path) for f in spec.files)]
    directories = {RUN_DIR}
    for leaf in leaves:
        while leaf.startswith(RUN_DIR + "/"):
            directories.add(leaf)
            leaf = posixpath.dirname(leaf)
    return sorted(directories)


def _entry(spec: ContainerSpec, path: str, mode: int, mtime: int, kind: bytes) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(path.lstrip("/"))
    entry.type, entry.mode, entry.mtime = kind, mode, mtime
    entry.uid, entry.gid = spec.user.uid, spec.user.gid
    return entry
