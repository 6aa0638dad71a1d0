"""`up` rejects a relay in a region without VPC origins before it creates resources."""

from typing import cast

import pytest
from det_cli.deployment import aws_checks
from det_cli.deployment.aws import AwsDeployment
from det_cli.deployment.aws_account import Aws
from det_cli.deployment.cluster import ClusterSpec
from det_cli.errors import CommandError

from tests.support.preflight_account import Account


@pytest.mark.parametrize("region", ["ap-southeast-6", "us-gov-west-1", "cn-north-1"])
def test_rejects_a_region_without_vpc_origins(region: str) -> None:
    deployment = AwsDeployment(ClusterSpec("box", region, {}, {"relay": True}), lambda _: None)
    deployment.account = cast(Aws, Account(region))
    deployment.account.clusters = lambda: ["box"]  # type: ignore[method-assign]
    with pytest.raises(CommandError, match=f"does not support VPC origins in {region}") as error:
        deployment.plan()
    assert "leave relay out" in str(error.value.hint)


def test_accepts_other_regions() -> None:
    aws_checks.check_relay_region("us-east-1")
