"""Refuse configurations by which ordinary users' code would get hold of the machine that it runs on."""

from collections.abc import Mapping, Sequence
from typing import Any

from det_controlplane.core.config import host_paths
from det_controlplane.core.config.host_paths import SharedHostAccess
from det_controlplane.core.config.storage_paths import escaping_paths
from det_controlplane.core.problems import InvalidConfig, Problem
from det_controlplane.services.context import Context
from det_controlplane.services.principal import User


def require(
    ctx: Context,
    user: User,
    config: Mapping[str, Any],
    *,
    pool: str = "",
    storages: Sequence[Mapping[str, Any] | None] = (),
    demanded: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Refuse host mounts and devices of a configuration that users may not use, unless defaults, policies or the
    workspace's storage grant them."""
    if user.admin:
        return
    of_pool = ctx.config.pool(pool) if pool else None
    defaults = (of_pool and of_pool.task_container_defaults) or ctx.config.task_container_defaults
    environment = defaults.environment
    mounts: list[Any] = [*defaults.bind_mounts, ctx.config.checkpoint_storage or {}]
    mounts += (storage or {} for storage in storages)
    devices: list[Any] = [*defaults.devices]
    capabilities: list[str] = [*(environment.get("add_capabilities") or ())]
    variables = [*host_paths.bare_names(environment.get("environment_variables"))]
    for policy in demanded:
        invariant = policy.get("invariant_config") or {}
        environment = invariant.get("environment") or {}
        mounts += invariant.get("bind_mounts") or ()
        devices += (invariant.get("resources") or {}).get("devices") or ()
        capabilities += environment.get("add_capabilities") or ()
        variables += host_paths.bare_names(environment.get("environment_variables"))
    grants = SharedHostAccess(mounts, devices, capabilities, variables)
    _refuse(list(host_paths.problems(config, grants, ctx.config.allowed_host_paths)))


def require_storage(
    ctx: Context,
    user: User,
    storage: Mapping[str, Any],
    name: str,
    trusted: Sequence[Mapping[str, Any] | None] = (),
) -> None:
    """Refuse a storage that leads out of its own place, or would be mounted from where an ordinary user may not look."""
    _refuse(list(escaping_paths(storage, f"{name}.")))
    if user.admin:
        return
    places = [place or {} for place in (ctx.config.checkpoint_storage, *trusted)]
    allowed = ctx.config.allowed_host_paths
    _refuse(list(host_paths.of_storage(storage, places, allowed, f"{name}.")))


def _refuse(problems: list[Problem]) -> None:
    if problems:
        raise InvalidConfig(problems)
