"""KMS keys that encrypt the volumes of machines but that the cluster may not use."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from det_cli.deployment.aws_preflight import AccountQueries

_OF_AWS = "alias/aws/ebs"  # every principal that starts machines may use this key


def warnings(
    aws: AccountQueries, config: Mapping[str, Any], granted: Collection[str]
) -> Iterator[str]:
    """Yield a warning for each key that would make machines fail at launch. EC2 reports only an internal error."""
    for region, named_key in _volumes_of(config):
        key = named_key or _default_key(aws.at(region))
        if key and not any(arn == key or arn.endswith(f"/{key}") for arn in granted):
            source = "set by a pool" if named_key else "the account's default for EBS"
            yield (
                f"volumes of machines in {region} are encrypted with {key} ({source}), which the cluster may not use"
                " unless the key's policy allows it: machines would fail at launch. Give"
                f" --var 'kms_key_arns=[{key}]' with the key's ARN; spot machines also need a grant"
                ' (docs/guides/aws.md, "Keys of your own")'
            )


def _volumes_of(config: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the AWS regions in which pools rent, each with the pool's volume key or ''."""
    from det_controlplane.core.config.cluster import load_cluster

    return sorted(
        {
            (region, str(section.settings.get("root_volume_kms_key_id") or ""))
            for pool in load_cluster(config).resource_pools
            for section in pool.sections
            if section.provider == "aws"
            for region, _ in section.places
        }
    )


def _default_key(aws: AccountQueries) -> str:
    """Return the account's default EBS key of a region, or '' if it is AWS's own key or unknown."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        key = str(aws.client("ec2").get_ebs_default_kms_key_id()["KmsKeyId"])
    except (BotoCoreError, ClientError):
        return ""
    return "" if key.endswith(_OF_AWS) else key
