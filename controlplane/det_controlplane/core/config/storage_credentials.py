"""Find pools with machines that have no credentials for the cluster's checkpoint storage."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from det_controlplane.core.config.cluster import ClusterConfig
from det_controlplane.core.config.pools import Pool

# A machine gives its tasks credentials for its own cloud, and for the other cloud if its section has this setting.
_CLOUDS = {"s3": "aws", "gcs": "gcp"}
_NAMES = {"aws": "AWS", "gcp": "Google Cloud"}
_VARIABLES = {"s3": "AWS_ACCESS_KEY_ID", "gcs": "GOOGLE_APPLICATION_CREDENTIALS"}
_GIVEN_BY = {"s3": "aws_role_arn", "gcs": "google_credentials"}
_REMEDIES = {
    "s3": "give their section aws_role_arn, or checkpoint_storage access_key and secret_key",
    "gcs": "give their section google_credentials, or choose type s3 with access_key and secret_key",
}


def warnings(config: ClusterConfig) -> Iterator[str]:
    """Yield a warning for each pool with machines in a cloud that cannot write to the checkpoint bucket."""
    storage = config.checkpoint_storage or {}
    kind = str(storage.get("type") or "")
    if kind not in _CLOUDS or storage.get("access_key"):
        return
    for pool in config.resource_pools:
        lacking = [s for s in pool.sections if not s.settings.get(_GIVEN_BY[kind])]
        other_clouds = {section.provider for section in lacking} - {_CLOUDS[kind]}
        if other_clouds and not _has_credentials(pool, config, _VARIABLES[kind]):
            clouds = " and ".join(_NAMES[cloud] for cloud in sorted(other_clouds))
            yield (
                f"machines of pool {pool.pool_name} on {clouds} have no credentials for the bucket of"
                f" checkpoint_storage on {_NAMES[_CLOUDS[kind]]}, and trials there cannot save checkpoints:"
                f" {_REMEDIES[kind]}"
            )


def _has_credentials(pool: Pool, config: ClusterConfig, variable: str) -> bool:
    """Return whether the task defaults set the variable with the credentials."""
    defaults = pool.task_container_defaults or config.task_container_defaults
    variables = defaults.environment.get("environment_variables")
    return any(entry.partition("=")[0] == variable for entry in _entries(variables))


def _entries(variables: Any) -> Iterable[str]:
    kinds = variables.values() if isinstance(variables, Mapping) else [variables or ()]
    return (str(entry) for kind in kinds if isinstance(kind, list | tuple) for entry in kind)
