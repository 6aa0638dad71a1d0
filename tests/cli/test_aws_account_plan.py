"""`up` rejects an account with AWS's free plan before it creates resources."""

from typing import Any, cast

import pytest
from botocore.exceptions import EndpointConnectionError, UnknownServiceError
from det_cli.deployment import aws_checks
from det_cli.deployment.aws import AwsDeployment
from det_cli.deployment.aws_account import Aws
from det_cli.deployment.cluster import ClusterSpec
from det_cli.errors import CommandError

from tests.cli.conftest import Det
from tests.support.aws_account import Account as MotoAccount
from tests.support.fake_terraform import FakeTerraform, error_event
from tests.support.preflight_account import Account, failure


def account_with(answer: Any) -> Account:
    """Return an account with a plan. Like AWS, only us-east-1 answers requests about the plan."""
    account = Account()
    account.answers["get_account_plan_state"] = failure("UnknownOperationException")
    account.at("us-east-1").answers["get_account_plan_state"] = answer
    return account


def warnings(account: Account) -> list[str]:
    messages: list[str] = []
    aws_checks.check_account_plan(account, messages.append)
    return messages


def test_rejects_the_free_plan_before_any_change() -> None:
    account = account_with({"accountPlanType": "FREE", "accountPlanStatus": "ACTIVE"})
    account.clusters = lambda: ["box"]  # type: ignore[attr-defined]
    deployment = AwsDeployment(ClusterSpec("box", "us-west-2"), lambda _: None)
    deployment.account = cast(Aws, account)
    with pytest.raises(CommandError, match="has AWS's free plan") as error:
        deployment.plan()
    assert "aws freetier upgrade-account-plan --account-plan-type PAID" in str(error.value.hint)


@pytest.mark.parametrize(
    "answer", [{"accountPlanType": "PAID"}, failure("ResourceNotFoundException")]
)
def test_accepts_a_paid_plan_and_an_account_older_than_the_plans(answer: Any) -> None:
    assert warnings(account_with(answer)) == []


@pytest.mark.parametrize(
    "answer",
    [
        failure("AccessDeniedException"),
        UnknownServiceError(service_name="freetier", known_service_names="ec2"),
        EndpointConnectionError(endpoint_url="https://freetier.us-east-1.amazonaws.com"),
    ],
)
def test_warns_about_an_unknown_plan(answer: Any) -> None:
    (warning,) = warnings(account_with(answer))
    assert "the account's plan is unknown" in warning
    assert "freetier:GetAccountPlanState" in warning


def test_warns_about_a_boto3_version_without_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    account = Account()
    monkeypatch.setattr(account.at("us-east-1"), "client", lambda service: object())
    (warning,) = warnings(account)
    assert "boto3 before July 2025" in warning


def test_the_plan_is_not_checked_in_partitions_without_plans() -> None:
    account = Account("cn-north-1")
    aws_checks.check_account_plan(account, lambda _: None)
    assert account.elsewhere == {}


@pytest.mark.parametrize(
    ("message", "remedy"),
    [
        (
            "FreeTierRestrictionError: The specified backup retention period exceeds the maximum available to free"
            " tier customers. To remove all limitations, upgrade your account plan.",
            "upgrade the account from AWS's free plan",
        ),
        (
            "AccessDenied: Your account must be verified before you can add new CloudFront resources.",
            "ask AWS Support to verify the account for CloudFront",
        ),
    ],
)  # fmt: skip
def test_errors_of_new_accounts_have_a_remedy(
    det: Det, account: MotoAccount, terraform: FakeTerraform, message: str, remedy: str
) -> None:
    terraform.answers(apply={"out": error_event("creating", f"api error {message}"), "code": 1})
    result = det("deploy", "aws", "up", "--yes", *account.where)
    assert result.code == 1
    assert message in result.err
    assert remedy in result.err
