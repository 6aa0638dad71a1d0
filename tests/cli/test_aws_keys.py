"""`det deploy aws up` warns about volume keys that the cluster may not use."""

from typing import Any

import pytest
from botocore.exceptions import ClientError
from det_cli.deployment import aws_checks

KEY = "arn:aws:kms:us-west-2:123456789012:key/1234abcd"


class Account:
    """An account with a default EBS key in each region."""

    account = "123456789012"

    def __init__(self, keys: dict[str, str], region: str = "us-west-2") -> None:
        self.region = region
        self._keys = keys

    def client(self, service: str) -> Any:
        return self

    def at(self, region: str) -> "Account":
        return Account(self._keys, region)

    def get_ebs_default_kms_key_id(self) -> dict[str, str]:
        if self.region not in self._keys:
            raise ClientError({"Error": {"Code": "UnauthorizedOperation"}}, "Operation")
        return {"KmsKeyId": self._keys[self.region]}


def warnings(
    keys: dict[str, str], section: dict[str, Any] | None = None, permissions: tuple[str, ...] = ()
) -> list[str]:
    provider = {"type": "aws", "regions": ["us-west-2", "eu-west-1"], "instance_type": "g5.xlarge"}
    config = {
        "resource_pools": [{"pool_name": "gpus", "provider": {**provider, **(section or {})}}]
    }
    return list(aws_checks.key_warnings(Account(keys), config, permissions))


def test_warns_about_a_default_key_that_the_cluster_may_not_use() -> None:
    (warning,) = warnings({"us-west-2": KEY, "eu-west-1": "alias/aws/ebs"})
    assert "volumes of machines in us-west-2 are encrypted with" in warning
    assert f"--var 'kms_key_arns=[{KEY}]'" in warning


@pytest.mark.parametrize(
    "keys", [{"us-west-2": "alias/aws/ebs", "eu-west-1": "alias/aws/ebs"}, {}], ids=["AWS's", "denied"]
)  # fmt: skip
def test_ignores_the_key_of_aws_and_keys_that_cannot_be_read(
    keys: dict[str, str],
) -> None:
    assert warnings(keys) == []


@pytest.mark.parametrize("named", [KEY, "1234abcd"])
def test_warns_about_the_key_of_a_pool_unless_it_is_granted(named: str) -> None:
    section = {"root_volume_kms_key_id": named}
    assert len(warnings({}, section)) == 2
    assert warnings({}, section, (KEY,)) == []
