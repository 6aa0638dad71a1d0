"""Check the parts of a cluster configuration that only take effect in tasks, before users run into the errors."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

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


def load_checked(source: str | Mapping[str, Any], own_keys: Sequence[str] = ()) -> ClusterConfig:
    """Read the configuration. Raises InvalidConfig for storage or task defaults with which every experiment fails."""
    config = load_cluster(source, own_keys)
    problems = list(dict.fromkeys(_problems(config)))
    if problems:
        raise InvalidConfig(problems, what=WHAT)
    return config


def default_environments(config: ClusterConfig) -> Iterator[tuple[Pool, Environment]]:
    """Yield each pool with the default environment of its tasks. Raises InvalidConfig."""
    for pool in config.resource_pools:
        yield pool, _resolve_probe(config, pool).config.environment


def _resolve_probe(config: ClusterConfig, pool: Pool) -> Resolved:
    """Return the configuration of an experiment that only has the pool's defaults. Raises InvalidConfig."""
    has_storage = config.checkpoint_storage is not None
    probe = _PROBE if has_storage else _PROBE | {"checkpoint_storage": _ANY_STORAGE}
    return resolve(probe, sources_of(config, pool), name="probe", seed=0)


def _problems(config: ClusterConfig) -> Iterator[Problem]:
    for pool in config.resource_pools:
        own = pool.task_container_defaults != config.task_container_defaults
        yield from task_problems(config, pool, f"resource_pools.{pool.pool_name}." if own else "")


def task_problems(config: ClusterConfig, pool: Pool, where: str = "") -> Iterator[Problem]:
    """Yield the problems that every experiment in a pool would have, with paths that begin with `where`."""
    try:
        _resolve_probe(config, pool)
    except InvalidConfig as error:
        for problem in error.problems:
            is_storage = problem.path.startswith("checkpoint_storage")
            prefix = "" if is_storage else f"{where}task_container_defaults."
            yield Problem(prefix + problem.path.removeprefix("environment."), problem.message)


# A machine gives its tasks credentials for its own cloud, and for the other cloud if its section has this setting.
_CLOUDS = {"s3": "aws", "gcs": "gcp"}
_NAMES = {"aws": "AWS", "gcp": "Google Cloud"}
_VARIABLES = {"s3": "AWS_ACCESS_KEY_ID", "gcs": "GOOGLE_APPLICATION_CREDENTIALS"}
_GIVEN_BY = {"s3": "aws_role_arn", "gcs": "google_credentials"}
_OF_THIS_MACHINE = ("shared_fs", "directory")
_REMEDIES = {
    "s3": "give their section aws_role_arn, or checkpoint_storage access_key and secret_key",
    "gcs": "give their section google_credentials, or choose type s3 with access_key and secret_key",
}


def credential_warnings(config: ClusterConfig) -> Iterator[str]:
    """Yield a warning for each pool with machines in a cloud that cannot write to the checkpoint bucket."""
    for pool in config.resource_pools:
        yield from credential_warnings_of(config, pool)


def credential_warnings_of(config: ClusterConfig, pool: Pool) -> Iterator[str]:
    """Yield the warning about a pool with machines in a cloud that cannot write to the checkpoint bucket."""
    storage = config.checkpoint_storage or {}
    kind = str(storage.get("type") or "")
    if kind not in _CLOUDS or storage.get("access_key"):
        return
    lacking = [s for s in pool.sections if not s.settings.get(_GIVEN_BY[kind])]
    other_clouds = {section.provider for section in lacking} - {_CLOUDS[kind]}
    if other_clouds and not _has_credentials(pool, config, _VARIABLES[kind]):
        clouds = " and ".join(_NAMES.get(cloud, cloud) for cloud in sorted(other_clouds))
        yield (
            f"machines of pool {pool.pool_name} on {clouds} have no credentials for the bucket of"
            f" checkpoint_storage on {_NAMES[_CLOUDS[kind]]}, and trials there cannot save checkpoints:"
            f" {_REMEDIES[kind]}"
        )


def reach_warnings(config: ClusterConfig, pool: Pool, url: str) -> Iterator[str]:
    """Warn of machines of a pool that cannot reach checkpoints on this machine, or the API at a URL of this machine."""
    storage = str((config.checkpoint_storage or {}).get("type") or "")
    sections = [section.settings for section in pool.sections]
    if storage in _OF_THIS_MACHINE and not all(s.get("startup_script") for s in sections):
        yield (
            f"machines of pool {pool.pool_name} cannot use checkpoint_storage of type {storage}, which is a"
            " directory of this machine: set a bucket (type s3 or gcs), or mount it in their startup_script"
        )
    host = urlsplit(url).hostname or ""
    is_loopback = host == "localhost" or host.startswith("127.")
    if is_loopback and not all(s.get("master_url") for s in sections):
        yield (
            f"machines of pool {pool.pool_name} cannot join: {url} is the API's address only on this machine:"
            " start the cluster with --host 0.0.0.0, and set master_url of the pool's section to the API's address"
        )


def _has_credentials(pool: Pool, config: ClusterConfig, variable: str) -> bool:
    """Return whether the task defaults set the variable with the credentials."""
    defaults = pool.task_container_defaults or config.task_container_defaults
    variables = defaults.environment.get("environment_variables")
    return any(entry.partition("=")[0] == variable for entry in _entries(variables))


def _entries(variables: Any) -> Iterable[str]:
    kinds = variables.values() if isinstance(variables, Mapping) else [variables or ()]
    return (str(entry) for kind in kinds if isinstance(kind, list | tuple) for entry in kind)
