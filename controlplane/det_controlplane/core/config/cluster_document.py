"""The cluster's configuration as a document: what `master.yaml` would say with every default written out."""

from dataclasses import asdict
from typing import Any

from det_controlplane.core.config.cluster import ClusterConfig
from det_controlplane.core.config.pools import Pool, Provider
from det_controlplane.core.config.task_defaults import TaskContainerDefaults


def document(config: ClusterConfig) -> dict[str, Any]:
    """Return the configuration in the form that `load_cluster` reads."""
    storage = config.checkpoint_storage
    return {
        "cluster_name": config.cluster_name,
        "port": config.port,
        "security": {"initial_user_password": config.initial_user_password},
        "resource_manager": {
            "type": "agent",
            "scheduler": asdict(config.scheduler),
            "default_compute_resource_pool": config.default_compute_resource_pool,
            "default_aux_resource_pool": config.default_aux_resource_pool,
        },
        "resource_pools": [_pool(pool) for pool in config.resource_pools],
        "task_container_defaults": _task_defaults(config.task_container_defaults),
        "checkpoint_storage": None if storage is None else dict(storage),
        "reserved_ports": sorted(config.reserved_ports),
        "launch_error": config.launch_error,
        "notebook_timeout": config.notebook_timeout,
        "tensorboard_timeout": config.tensorboard_timeout,
        "retention_policy": asdict(config.retention_policy),
        "webhooks": asdict(config.webhooks),
        "log": asdict(config.log),
        "feature_switches": [],  # nothing here depends on one
    }


def _pool(pool: Pool) -> dict[str, Any]:
    defaults, provider = pool.task_container_defaults, pool.provider
    return {
        **asdict(pool),
        "task_container_defaults": None if defaults is None else _task_defaults(defaults),
        "provider": None if provider is None else _provider(provider),
    }


def _provider(provider: Provider) -> dict[str, Any]:
    resolved = asdict(provider)
    settings: dict[str, Any] = resolved.pop("settings")
    return {**settings, **resolved}


def _task_defaults(defaults: TaskContainerDefaults) -> dict[str, Any]:
    values = asdict(defaults)
    environment: dict[str, Any] = values.pop("environment")
    lists = {key: list(values[key]) for key in ("bind_mounts", "devices", "log_policies")}
    return {**values, **lists, **environment}
