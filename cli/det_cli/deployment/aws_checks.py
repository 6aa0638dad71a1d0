"""Checks of an AWS account and its regions: the account plan, IPv6 endpoints, relays and keys of volumes."""

import socket
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from det_cli.deployment.aws_preflight import AccountQueries
from det_cli.errors import CommandError
from det_cli.render import Say

_ACCOUNT_REGION = "us-east-1"  # serves the account in all regions
_WITHOUT_PLANS = ("cn-", "us-gov-")  # partitions without a free plan
UPGRADE = "`aws freetier upgrade-account-plan --account-plan-type PAID --region us-east-1`"


def check_account_plan(aws: AccountQueries, say: Say) -> None:
    """Raise CommandError for an account with the free plan. Warn if the plan is unknown."""
    from botocore.exceptions import BotoCoreError, ClientError

    if aws.region.startswith(_WITHOUT_PLANS):
        return
    try:
        plan = aws.at(_ACCOUNT_REGION).client("freetier").get_account_plan_state()
    except ClientError as e:
        code = str(e.response.get("Error", {}).get("Code", ""))
        if code != "ResourceNotFoundException":  # accounts that are older than the plans
            _warn_of_plan(say, code)
        return
    except BotoCoreError as e:  # includes a boto3 version without this service
        _warn_of_plan(say, str(e))
        return
    except AttributeError:
        _warn_of_plan(say, "boto3 before July 2025 does not know the call")
        return
    if plan.get("accountPlanType") == "FREE":
        raise CommandError(
            "the account has AWS's free plan, which does not allow the cluster's database and machines",
            f"upgrade the plan with {UPGRADE} or in the billing console; unused credits remain",
        )


def _warn_of_plan(say: Say, cause: str) -> None:
    say(
        f"warning: the account's plan is unknown ({cause}). AWS's free plan does not allow the cluster."
        " This check needs the permission freetier:GetAccountPlanState"
    )


# Services that the functions call in the cluster's region, and in each region where pools rent.
_AT_HOME = ("lambda", "scheduler")
_AT_MACHINES = ("ec2", "ssm", "sts")
# This partition has other domains, so it is not checked.
_OTHER_PARTITION = "cn-"


def resolves(host: str) -> bool:
    """Return True if the host name resolves, or if the resolver is unavailable."""
    try:
        socket.getaddrinfo(host, 443)
    except socket.gaierror as e:
        return e.errno == socket.EAI_AGAIN
    return True


def check_endpoints(region: str, rented: Sequence[str], variables: Mapping[str, Any]) -> None:
    """Raise CommandError for regions that the functions cannot reach.

    If the IPv4 name does not resolve either, this machine uses a proxy and the result is unknown."""
    if not variables.get("machine_external_ip", True):
        return
    missing = [
        f"{service}.{place}.api.aws"
        for service, place in _endpoints(region, rented)
        if not resolves(f"{service}.{place}.api.aws")
        and resolves(f"{service}.{place}.amazonaws.com")
    ]
    if missing:
        raise CommandError(
            f"AWS has no endpoints {', '.join(missing)}, so the functions, which use IPv6 only, cannot rent machines",
            "add `--var machine_external_ip=false` to use IPv4 with a NAT gateway ($36.50 a month), or give another"
            " region; most regions have these endpoints",
        )


def _endpoints(region: str, rented: Sequence[str]) -> Iterator[tuple[str, str]]:
    if not region.startswith(_OTHER_PARTITION):
        yield from ((service, region) for service in _AT_HOME)
        yield from (
            (service, place) for place in sorted({region, *rented}) for service in _AT_MACHINES
        )


# Source: CloudFront developer guide, "Supported AWS Regions for VPC origins".
_RELAY_REGIONS = frozenset(
    (
        "af-south-1", "ap-east-1", "ap-east-2", "ap-northeast-1", "ap-northeast-2", "ap-northeast-3", "ap-south-1",
        "ap-south-2", "ap-southeast-1", "ap-southeast-2", "ap-southeast-3", "ap-southeast-4", "ap-southeast-5",
        "ap-southeast-7", "ca-central-1", "ca-west-1", "eu-central-1", "eu-central-2", "eu-north-1", "eu-south-1",
        "eu-south-2", "eu-west-1", "eu-west-2", "eu-west-3", "il-central-1", "me-central-1", "me-south-1",
        "mx-central-1", "sa-east-1", "us-east-1", "us-east-2", "us-west-1", "us-west-2",
    )
)  # fmt: skip


def check_relay_region(region: str) -> None:
    """Raise CommandError for a relay in a region without VPC origins."""
    if region not in _RELAY_REGIONS:
        raise CommandError(
            f"CloudFront does not support VPC origins in {region}, which the relay needs",
            "give another --region, or leave relay out; if AWS now supports them, add --no-preflight-checks",
        )


_OF_AWS = "alias/aws/ebs"  # every principal that starts machines may use this key


def key_warnings(
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
