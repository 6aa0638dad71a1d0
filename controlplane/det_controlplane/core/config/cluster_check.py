"""Check the parts of a cluster configuration that only take effect in tasks, before users run into the errors."""

from collections.abc import Iterator, Mapping
from typing import Any

from det_controlplane.core.config.cluster import WHAT, ClusterConfig, load_cluster
from det_controlplane.core.config.environment import Environment
from det_controlplane.core.config.pools import Pool
from det_controlplane.core.config.resolution import Resolved, resolve, sources_of
from det_controlplane.core.problems import InvalidConfig, Problem

_PROBE = {
    "entrypoint": "true",
    "searcher": {"name": "single", "metric": "loss"},
    "checkpoint_storage": {},
}
_ANY_STORAGE = {"type": "directory", "container_path": "/checkpoints"}


def load_checked(source: str | Mapping[str, Any]) -> ClusterConfig:
    """Read the configuration. Raises InvalidConfig for storage or task defaults with which every experiment fails."""
    config = load_cluster(source)
    problems = list(dict.fromkeys(_problems(config)))
    if problems:
        raise InvalidConfig(problems, what=WHAT)
    return config


def default_environments(config: ClusterConfig) -> Iterator[tuple[Pool, Environment]]:
    """Yield each pool with the default environment of its tasks. Raises InvalidConfig."""
    for pool in config.resource_pools:
        yield pool, _probed(config, pool).config.environment


def _probed(config: ClusterConfig, pool: Pool) -> Resolved:
    """Return the configuration of an experiment that only has the pool's defaults. Raises InvalidConfig."""
    has_storage = config.checkpoint_storage is not None
    probe = _PROBE if has_storage else _PROBE | {"checkpoint_storage": _ANY_STORAGE}
    return resolve(probe, sources_of(config, pool), name="probe", seed=0)


def _problems(config: ClusterConfig) -> Iterator[Problem]:
    for pool in config.resource_pools:
        own = pool.task_container_defaults != config.task_container_defaults
        where = f"resource_pools.{pool.pool_name}." if own else ""
        try:
            _probed(config, pool)
        except InvalidConfig as error:
            for problem in error.problems:
                is_storage = problem.path.startswith("checkpoint_storage")
                prefix = "" if is_storage else f"{where}task_container_defaults."
                yield Problem(prefix + problem.path.removeprefix("environment."), problem.message)
