"""Pools in the database: read by the models of the configuration's pools, and merged with the configuration.

See docs/guides/pools.md."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from det_controlplane.core.config.cluster import ClusterConfig
from det_controlplane.core.config.pools import Pool, read_pool, with_fallback
from det_controlplane.core.config.provider_defaults import fill_pool
from det_controlplane.core.config.reading import Reader
from det_controlplane.core.config.text import json_problems
from det_controlplane.core.problems import InvalidConfig, Problem, shown

_WHAT = "pool"
# Names are parts of URLs, tags of machines and lines of boot scripts.
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9 ._-]{0,62}[A-Za-z0-9._-])?")


@dataclass(frozen=True, slots=True)
class StoredPool:
    """A pool of the database: its settings, with the keys of `resource_pools` and with secrets."""

    name: str
    settings: Mapping[str, Any]
    is_leaving: bool = False


@dataclass(frozen=True, slots=True)
class StoredPools:
    """All pools of the database, and the default pools that replace the configuration's."""

    pools: tuple[StoredPool, ...] = ()
    default_compute: str | None = None
    default_aux: str | None = None


def check_name(name: str) -> None:
    """Raise InvalidConfig for a name that a pool in the database cannot have."""
    if not _NAME.fullmatch(name):
        message = (
            "must have 1 to 64 letters, digits, spaces, '.', '_' or '-', and begin with a letter or digit,"
            f" not {shown(name)}"
        )
        raise InvalidConfig([Problem("pool_name", message)], what=_WHAT)


def read_stored_pool(config: ClusterConfig, settings: Any) -> Pool:
    """Read the settings of a pool as the configuration's pools are read. Raises InvalidConfig with all problems."""
    problems = list(json_problems(settings))
    if problems:
        raise InvalidConfig(problems, what=_WHAT)
    reader = Reader(fill_pool(settings, config.provider_defaults), "", problems)
    pool = with_fallback(read_pool(reader, config.scheduler), config.task_container_defaults)
    if problems:
        raise InvalidConfig(problems, what=_WHAT)
    return replace(pool, is_stored=True)


def merge_pools(config: ClusterConfig, stored: StoredPools) -> ClusterConfig:
    """Return the configuration with the pools of the database. A pool of the database replaces one with its name."""
    pools = {pool.pool_name: pool for pool in config.resource_pools}
    pools |= {one.name: _readable_pool(config, one) for one in stored.pools}
    compute, aux = config.default_compute_resource_pool, config.default_aux_resource_pool
    return replace(
        config,
        resource_pools=tuple(pools.values()),
        default_compute_resource_pool=_existing(stored.default_compute, pools, compute),
        default_aux_resource_pool=_existing(stored.default_aux, pools, aux),
    )


def _existing(name: str | None, pools: Mapping[str, Pool], fallback: str) -> str:
    return name if name in pools and name is not None else fallback


def _readable_pool(config: ClusterConfig, stored: StoredPool) -> Pool:
    """Return a stored pool. Settings that this version cannot read give a pool without machines."""
    try:
        pool = read_stored_pool(config, stored.settings)
    except InvalidConfig as error:
        pool = Pool(
            pool_name=stored.name,
            scheduler=config.scheduler,
            task_container_defaults=config.task_container_defaults,
            is_stored=True,
            problem=str(error),
        )
    return _leaving(pool) if stored.is_leaving else pool


def _leaving(pool: Pool) -> Pool:
    """Return a pool that keeps no machine without work, because it is deleted after its work."""
    limits = replace(pool.limits, min_instances=0, warm_instances=0, warm_policy=None)
    return replace(pool, limits=limits, is_leaving=True)


def merged_settings(settings: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings with the changes, key by key. Null removes a key."""
    result = dict(settings)
    for key, value in changes.items():
        current = result.get(key)
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(current, Mapping):
            result[key] = merged_settings(current, value)
        else:
            result[key] = value
    return result


def renews_machines(before: Pool, after: Pool) -> bool:
    """Return whether machines that start from now on differ from the machines of the earlier settings."""
    return before.sections != after.sections


def providers(pools: Iterable[Pool]) -> list[str]:
    """Return the clouds in which the pools rent."""
    return sorted({section.provider for pool in pools for section in pool.sections})
