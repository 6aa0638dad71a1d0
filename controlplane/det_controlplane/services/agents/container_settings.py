"""The parts of a configuration that agents need for a container: image, mounts, devices, the user's variables."""

import posixpath
from dataclasses import replace
from typing import Any

from det_controlplane.core.agent_protocol import ContainerSpec, DataSetMount, Device, Mount
from det_controlplane.core.config.task_defaults import TaskContainerDefaults

SHARED_FS_MOUNT = "/determined_shared_fs"
TRIAL_PORT = 1734
REPLICA_BYTES = 4 * 1024**3  # a limit; a trial takes twice the size of its state
_INTERFACE_VARIABLES = (
    "DET_INTER_NODE_NETWORK_INTERFACE",
    "NCCL_SOCKET_IFNAME",
    "GLOO_SOCKET_IFNAME",
)


def applied(
    spec: ContainerSpec,
    config: dict[str, Any],
    defaults: TaskContainerDefaults,
    device_type: str | None,
) -> ContainerSpec:
    """Return the specification with the image, mounts, devices and ports that a configuration asks for."""
    environment = config.get("environment") or {}
    resources = config.get("resources") or {}
    proxied = (int(p["proxy_port"]) for p in environment.get("proxy_ports") or [])
    return replace(
        spec,
        image=_image(environment, device_type),
        force_pull=bool(environment.get("force_pull_image")),
        registry_auth=environment.get("registry_auth") or {},
        mounts=_mounts(config, spec.work_dir),
        data_sets=_data_sets(config.get("data")),
        devices=tuple(Device.from_json(d) for d in resources.get("devices") or []),
        shm_size_bytes=resources.get("shm_size") or defaults.shm_size_bytes,
        cap_add=tuple(environment.get("add_capabilities") or ()),
        cap_drop=tuple(environment.get("drop_capabilities") or ()),
        ports=(TRIAL_PORT, *proxied),
    )


def replica_bytes(config: dict[str, Any]) -> int:
    """Return the memory that each agent of a trial gives its replicas, or 0 if the configuration asks for none."""
    resources = config.get("resources") or {}
    wanted = any(resources.get(key) for key in ("min_slots_per_trial", "replication_period"))
    memory: int | None = resources.get("replica_memory")
    return memory or (REPLICA_BYTES if wanted else 0)


def _image(environment: dict[str, Any], device_type: str | None) -> str:
    image = environment.get("image") or ""
    if isinstance(image, dict):
        return str(image.get(device_type or "cpu") or image.get("cpu") or "")
    return str(image)


def _mounts(config: dict[str, Any], work_dir: str) -> tuple[Mount, ...]:
    """Return the mounts of a configuration; a relative container path is below the work directory."""
    entries = [*(config.get("bind_mounts") or []), *(config.get("_mounts") or [])]
    mounts = [Mount.from_json(mount) for mount in entries]
    mounts = [replace(m, container_path=posixpath.join(work_dir, m.container_path)) for m in mounts]
    storage = config.get("checkpoint_storage") or {}
    if storage.get("type") == "shared_fs":
        propagation = storage.get("propagation") or "rprivate"
        mounts.append(Mount(storage["host_path"], SHARED_FS_MOUNT, propagation=propagation))
    return tuple(mounts)


def _data_sets(data: Any) -> tuple[DataSetMount, ...]:
    """Return the data sets of the list form of `data`. The object form is the user's own."""
    entries = data if isinstance(data, list) else ()
    return tuple(DataSetMount.from_json(entry) for entry in entries)


def variables(config: dict[str, Any], device_type: str | None) -> tuple[dict[str, str], list[str]]:
    """Return the variables with values, and the bare names, which take their values from the agent's environment."""
    entries = (config.get("environment") or {}).get("environment_variables") or []
    if isinstance(entries, dict):
        entries = entries.get(device_type or "cpu") or []
    values = dict(v.partition("=")[::2] for v in entries if "=" in v)
    return values, [v for v in entries if "=" not in v]


def network_interface(defaults: TaskContainerDefaults) -> dict[str, str]:
    """Return the cluster's choice for the traffic between a trial's containers, in the words of each library."""
    name = defaults.dtrain_network_interface
    if not name:
        return {}
    return dict.fromkeys(_INTERFACE_VARIABLES, name)
