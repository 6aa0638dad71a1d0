"""Each S3 call states the expected bucket owner, because another account may own a bucket with the same name."""

import pytest
from det_cli.deployment import aws_buckets
from det_cli.deployment.aws_account import Aws
from det_cli.errors import CommandError

from tests.cli.conftest import Det
from tests.support.aws_account import DATA_BUCKET, OWN_STATE_BUCKET, STATE_BUCKET, Account
from tests.support.fake_terraform import FakeTerraform, error_event
from tests.support.moto_buckets import Ownership

STOPPED = {"out": error_event("creating", "stopped here"), "code": 1}


@pytest.fixture
def aws(account: Account) -> Aws:
    return Aws("us-west-2", account.url)


def names(account: Account) -> set[str]:
    return {bucket["Name"] for bucket in account.client("s3").list_buckets()["Buckets"]}


def test_a_new_state_bucket_has_a_name_that_other_accounts_cannot_take(
    det: Det, account: Account, terraform: FakeTerraform, buckets: Ownership
) -> None:
    terraform.answers(apply=STOPPED)
    result = det("deploy", "aws", "up", "--yes", *account.where)
    assert "stopped here" in result.err
    assert names(account) == {OWN_STATE_BUCKET}
    assert buckets.namespaces == {OWN_STATE_BUCKET: "account-regional"}
    assert f"-backend-config=bucket={OWN_STATE_BUCKET}" in terraform.calls("init")[0]["words"]


def test_every_call_states_the_owner_of_the_bucket(
    det: Det, account: Account, terraform: FakeTerraform, buckets: Ownership
) -> None:
    account.has_cluster()
    buckets.unchecked.clear()
    terraform.answers(apply=STOPPED, state_pull={"out": '{"resources": []}'}, output={"out": "{}"})
    det("deploy", "aws", "up", "--yes", *account.where)
    assert det("deploy", "aws", "down", "--yes", *account.where).code == 0
    assert buckets.unchecked == []
    assert {call.split()[0] for call in buckets.checked} == {"HEAD", "GET", "PUT", "DELETE"}


def test_a_cluster_of_an_earlier_version_keeps_its_state_bucket(
    det: Det, account: Account, terraform: FakeTerraform, aws: Aws
) -> None:
    account.has_cluster()
    assert aws.state_bucket == STATE_BUCKET
    assert det("deploy", "aws", "list", *account.where[2:]).out.split() == ["box"]


def test_a_state_bucket_of_another_account_is_not_used(
    det: Det, account: Account, terraform: FakeTerraform, buckets: Ownership
) -> None:
    buckets.taken_by_a_stranger(STATE_BUCKET)
    terraform.answers(apply=STOPPED)
    assert "stopped here" in det("deploy", "aws", "up", "--yes", *account.where).err
    assert names(account) == {OWN_STATE_BUCKET}


def test_rejects_a_bucket_of_another_account_without_the_namespace(
    account: Account, aws: Aws, buckets: Ownership, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older boto3 and two regions do not support names in the account's namespace."""
    monkeypatch.setattr(aws_buckets.Buckets, "_has_namespace", lambda _: False)
    buckets.taken_by_a_stranger(STATE_BUCKET)
    with pytest.raises(CommandError, match="belongs to another account"):
        _ = aws.state_bucket


def test_an_older_boto3_creates_the_bucket_with_the_common_name(
    account: Account, aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    operation = aws.client("s3").meta.service_model.operation_model("CreateBucket")
    monkeypatch.delitem(operation.input_shape.members, "BucketNamespace")
    aws.make_state_bucket()
    assert names(account) == {STATE_BUCKET}


def test_rejects_a_checkpoint_bucket_of_another_account(
    det: Det, account: Account, terraform: FakeTerraform, buckets: Ownership
) -> None:
    buckets.taken_by_a_stranger(DATA_BUCKET)
    result = det("deploy", "aws", "up", "--yes", *account.where)
    assert result.code == 1
    assert f"the bucket {DATA_BUCKET} cannot be used: it belongs to another account" in result.err
    assert "--var bucket=NAME" in result.err
    assert terraform.calls("apply") == []
