"""Find pools whose machines have no credentials for the checkpoint storage of their cluster."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from det_controlplane.core.config.cluster import ClusterConfig
from det_controlplane.core.config.pools import Pool

# A machine lends its tasks the credentials of its own cloud, and of the other one by what its section names.
_CLOUDS = {"s3": "aws", "gcs": "gcp"}
_NAMES = {"aws": "AWS", "gcp": "Google Cloud"}
_VARIABLES = {"s3": "AWS_ACCESS_KEY_ID", "gcs": "GOOGLE_APPLICATION_CREDENTIALS"}
_GIVEN_BY = {"s3": "aws_role_arn", "gcs": "google_credentials"}
_REMEDIES = {
    "s3": "give their section aws_role_arn, or checkpoint_storage access_key and secret_key",
    "gcs": "give their section google_credentials, or choose type s3 with access_key and secret_key",
}


def warnings(config: ClusterConfig) -> Iterator[str]:
    """Warn of each pool that rents in a cloud whose machines cannot write to the bucket of checkpoints."""
    storage = config.checkpoint_storage or {}
    kind = str(storage.get("type") or "")
    if kind not in _CLOUDS or storage.get("access_key"):
        return
    for pool in config.resource_pools:
        lacking = [s for s in pool.sections if not s.settings.get(_GIVEN_BY[kind])]
        theirs = {section.provider for section in lacking} - {_CLOUDS[kind]}
        if theirs and not _gives(pool, config, _VARIABLES[kind]):
            clouds = " and ".join(_NAMES[cloud] for cloud in sorted(theirs))
            yield (
                f"machines of pool {pool.pool_name} on {clouds} have no credentials for the bucket of"
                f" checkpoint_storage on {_NAMES[_CLOUDS[kind]]}, and trials there cannot save checkpoints:"
                f" {_REMEDIES[kind]}"
            )


def _gives(pool: Pool, config: ClusterConfig, variable: str) -> bool:
    """Tell whether task defaults set the variable by which libraries find credentials."""
    defaults = pool.task_container_defaults or config.task_container_defaults
    given = defaults.environment.get("environment_variables")
    return any(entry.partition("=")[0] == variable for entry in _entries(given))


def _entries(given: Any) -> Iterable[str]:
    kinds = given.values() if isinstance(given, Mapping) else [given or ()]
    return (str(entry) for kind in kinds if isinstance(kind, list | tuple) for entry in kind)
