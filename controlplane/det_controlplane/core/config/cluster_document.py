"""Write the cluster's configuration as a document: `master.yaml` with all defaults."""

from dataclasses import asdict, fields
from typing import Any

from det_controlplane.core.config.cluster import ClusterConfig
from det_controlplane.core.config.pools import Pool
from det_controlplane.core.config.providers import Provider
from det_controlplane.core.config.task_defaults import TaskContainerDefaults
from det_controlplane.core.config.telemetry import Telemetry


def document(config: ClusterConfig) -> dict[str, Any]:
    """Return the configuration in the form that `load_cluster` reads."""
    storage, oidc = config.checkpoint_storage, config.oidc
    return {
        "cluster_name": config.cluster_name,
        "port": config.port,
        "security": {
            "initial_user_password": config.initial_user_password,
            "allowed_host_paths": config.allowed_host_paths and list(config.allowed_host_paths),
            "authz": {"type": config.authz.value},
            "audit_retention_days": config.audit_retention_days,
            "max_uploads_per_day": config.max_uploads_per_day,
            "max_streams_per_user": config.max_streams_per_user,
            "max_connections_per_address": config.max_connections_per_address,
            "token": asdict(config.token),
            "oidc": None if oidc is None else _plain(asdict(oidc)),
        },
        "resource_manager": {
            "type": "agent",
            "scheduler": asdict(config.scheduler),
            "default_compute_resource_pool": config.default_compute_resource_pool,
            "default_aux_resource_pool": config.default_aux_resource_pool,
        },
        "resource_pools": [pool_document(pool) for pool in config.resource_pools],
        "task_container_defaults": _task_defaults(config.task_container_defaults),
        "checkpoint_storage": None if storage is None else dict(storage),
        "reserved_ports": sorted(config.reserved_ports),
        "launch_error": config.launch_error,
        "notebook_timeout": config.notebook_timeout,
        "tensorboard_timeout": config.tensorboard_timeout,
        "retention_policy": asdict(config.retention_policy),
        "webhooks": asdict(config.webhooks),
        "log": asdict(config.log),
        "telemetry": _telemetry(config.telemetry),
        "pipelines": [
            {**asdict(p), "claims": {name: list(v) for name, v in p.claims.items()}}
            for p in config.pipelines
        ],
        "feature_switches": list(config.feature_switches),
    }


def _telemetry(telemetry: Telemetry) -> dict[str, Any]:
    return {
        "otel_enabled": bool(telemetry.endpoint),
        "otel_endpoint": telemetry.endpoint,
        "otel_task_endpoint": telemetry.task_endpoint,
        "otel_headers": dict(telemetry.headers),
    }


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    return {name: list(v) if isinstance(v, tuple) else v for name, v in values.items()}


def pool_document(pool: Pool) -> dict[str, Any]:
    """Return a pool in the form that the configuration has it, with all defaults."""
    defaults = pool.task_container_defaults
    names = {"provider", "sections", "offers", "limits", "is_stored", "is_leaving", "problem"}
    own = {f.name: getattr(pool, f.name) for f in fields(pool) if f.name not in names}
    return {
        **own,
        "scheduler": asdict(pool.scheduler),
        "task_container_defaults": None if defaults is None else _task_defaults(defaults),
        **(_machines(pool.provider) if pool.provider else {}),
    }


def _machines(provider: Provider) -> dict[str, Any]:
    """Return the keys of a pool's machines: `provider` with its sizes, or `offers` beside the sizes."""
    other_fields = (
        "type", "settings", "sections", "warm_instances", "warm_policy", "max_hourly_cost", "ignored",
    )  # fmt: skip
    sizes = {
        f.name: getattr(provider, f.name) for f in fields(provider) if f.name not in other_fields
    }
    most = provider.max_hourly_cost
    policy = provider.warm_policy
    warm: dict[str, Any] = {
        "warm_instances": provider.warm_instances if policy is None else "auto",
        "max_hourly_cost": None if most is None else float(most),
    }
    if policy is not None:
        warm["max_warm_cost_per_day"] = policy.max_usd_day
        warm["waiting_cost_per_hour"] = policy.waiting_usd_hour
    if not provider.settings:
        return {"offers": [dict(s.settings) for s in provider.sections], **sizes, **warm}
    return {"provider": {**provider.settings, "type": provider.type, **sizes}, **warm}


def _task_defaults(defaults: TaskContainerDefaults) -> dict[str, Any]:
    values = asdict(defaults)
    environment: dict[str, Any] = values.pop("environment")
    lists = {key: list(values[key]) for key in ("bind_mounts", "devices", "log_policies")}
    return {**values, **lists, **environment}
