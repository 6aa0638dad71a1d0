"""AWS regions that support a relay. CloudFront reaches the relay's machine through a VPC origin."""

from det_cli.errors import CommandError

# Source: CloudFront developer guide, "Supported AWS Regions for VPC origins".
_REGIONS = frozenset(
    (
        "af-south-1", "ap-east-1", "ap-east-2", "ap-northeast-1", "ap-northeast-2", "ap-northeast-3", "ap-south-1",
        "ap-south-2", "ap-southeast-1", "ap-southeast-2", "ap-southeast-3", "ap-southeast-4", "ap-southeast-5",
        "ap-southeast-7", "ca-central-1", "ca-west-1", "eu-central-1", "eu-central-2", "eu-north-1", "eu-south-1",
        "eu-south-2", "eu-west-1", "eu-west-2", "eu-west-3", "il-central-1", "me-central-1", "me-south-1",
        "mx-central-1", "sa-east-1", "us-east-1", "us-east-2", "us-west-1", "us-west-2",
    )
)  # fmt: skip


def check_region(region: str) -> None:
    """Raise CommandError for a relay in a region without VPC origins."""
    if region not in _REGIONS:
        raise CommandError(
            f"CloudFront does not support VPC origins in {region}, which the relay needs",
            "give another --region, or leave relay out; if AWS now supports them, add --no-preflight-checks",
        )
