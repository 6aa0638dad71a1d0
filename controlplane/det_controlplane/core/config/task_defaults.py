"""`task_container_defaults`: an administrator's defaults for every container of a cluster or pool."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from det_controlplane.core.config.reading import Reader
from det_controlplane.core.problems import shown

_FOUR_GIB = 4 * 1024**3
_ENVIRONMENT_KEYS = (
    "image",
    "environment_variables",
    "force_pull_image",
    "registry_auth",
    "add_capabilities",
    "drop_capabilities",
    "det_token",
)
_IGNORED = ("cpu_pod_spec", "gpu_pod_spec", "checkpoint_gc_pod_spec", "slurm", "pbs", "kubernetes")


@dataclass(frozen=True, slots=True)
class TaskContainerDefaults:
    shm_size_bytes: int = _FOUR_GIB
    preemption_timeout: int = 3600  # seconds
    network_mode: str = "bridge"
    startup_hook: str = ""
    work_dir: str | None = None
    dtrain_network_interface: str = ""
    # These defaults are merged under the user's configuration and have its form.
    environment: Mapping[str, Any] = field(default_factory=dict)
    bind_mounts: tuple[Any, ...] = ()
    devices: tuple[Any, ...] = ()
    log_policies: tuple[Any, ...] = ()

    def experiment_fragment(self) -> dict[str, Any]:
        """Return the defaults as a part of an experiment configuration."""
        return {
            "environment": dict(self.environment),
            "bind_mounts": list(self.bind_mounts),
            "log_policies": list(self.log_policies),
            "preemption_timeout": self.preemption_timeout,
            "resources": {"devices": list(self.devices), "shm_size": self.shm_size_bytes},
        }

    def task_fragment(self) -> dict[str, Any]:
        """Return the defaults for notebooks, shells, commands and TensorBoards."""
        fragment = self.experiment_fragment()
        del fragment["log_policies"], fragment["preemption_timeout"]
        return fragment | {"work_dir": self.work_dir}


def read_task_defaults(reader: Reader) -> TaskContainerDefaults:
    """Read task defaults. Invalid values inside of fragments are reported by `load_checked` only."""
    environment = {key: reader.raw(key) for key in _ENVIRONMENT_KEYS}
    defaults = TaskContainerDefaults(
        shm_size_bytes=reader.size("shm_size_bytes", _FOUR_GIB),
        preemption_timeout=reader.whole("preemption_timeout", 3600, 0, 2**31 - 1),
        network_mode=reader.text("network_mode", "bridge"),
        startup_hook=reader.text("startup_hook", ""),
        work_dir=reader.text("work_dir", "") or None,
        dtrain_network_interface=reader.text("dtrain_network_interface", ""),
        environment={key: value for key, value in environment.items() if value is not None},
        bind_mounts=_list(reader, "bind_mounts"),
        devices=_list(reader, "devices"),
        log_policies=_list(reader, "log_policies"),
    )
    reader.ignore(*_IGNORED)
    reader.close()
    return defaults


def _list(reader: Reader, key: str) -> tuple[Any, ...]:
    value = reader.raw(key)
    if value is None or isinstance(value, list | tuple):
        return tuple(value or ())
    reader.refuse(key, f"must be a list, not {shown(value)}")
    return ()
