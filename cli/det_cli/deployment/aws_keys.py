"""Find keys of KMS that would encrypt the volumes of machines, and that the cluster may not use."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from det_cli.deployment.aws_preflight import AccountQueries

_OF_AWS = "alias/aws/ebs"  # whoever starts a machine may use it


def warnings(
    aws: AccountQueries, config: Mapping[str, Any], granted: Collection[str]
) -> Iterator[str]:
    """Tell of keys by which machines would end as they start; EC2 calls it an internal error, and names none."""
    for region, named in _volumes_of(config):
        key = named or _default_key(aws.at(region))
        if key and not any(arn == key or arn.endswith(f"/{key}") for arn in granted):
            whose = "a pool names" if named else "is the account's default for EBS"
            yield (
                f"volumes of machines in {region} are encrypted with {key}, which {whose}, and which the cluster may"
                " not use, unless the key's own policy says so: machines would end as they start. Give"
                f" --var 'kms_key_arns=[{key}]', with the key's ARN; spot machines need a grant, too"
                ' (docs/guides/aws.md, "Keys of your own")'
            )


def _volumes_of(config: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the regions in which pools rent from AWS, each with the key that a pool names, or none."""
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
    """Return the account's own default key for volumes of a region; empty for AWS's, or where it is not told."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        key = str(aws.client("ec2").get_ebs_default_kms_key_id()["KmsKeyId"])
    except (BotoCoreError, ClientError):
        return ""
    return "" if key.endswith(_OF_AWS) else key
