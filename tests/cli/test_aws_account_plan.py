"""AWS's free plan does not allow a cluster: `up` refuses before it creates resources."""

from typing import Any, cast

import pytest
from botocore.exceptions import EndpointConnectionError, UnknownServiceError
from det_cli.deployment import aws_account_plan
from det_cli.deployment.aws import AwsDeployment
from det_cli.deployment.aws_account import Aws
from det_cli.deployment.cluster import ClusterSpec
from det_cli.errors import CommandError

from tests.cli.conftest import Det
from tests.support.aws_account import Account as MotoAccount
from tests.support.fake_terraform import FakeTerraform, error_event
from tests.support.preflight_account import Account, failure


def account_with(answer: Any) -> Account:
    """Return an account with a plan. As at AWS, only us-east-1 answers requests about it."""
    account = Account()
    account.answers["get_account_plan_state"] = failure("UnknownOperationException")
    account.at("us-east-1").answers["get_account_plan_state"] = answer
    return account


def warnings(account: Account) -> list[str]:
    said: list[str] = []
    aws_account_plan.check(account, said.append)
    return said


def test_the_free_plan_is_refused_before_anything_is_made() -> None:
    account = account_with({"accountPlanType": "FREE", "accountPlanStatus": "ACTIVE"})
    account.clusters = lambda: ["box"]  # type: ignore[attr-defined]
    made = AwsDeployment(ClusterSpec("box", "us-west-2"), lambda _: None)
    made.account = cast(Aws, account)
    with pytest.raises(CommandError, match="has AWS's free plan") as refused:
        made.plan()
    assert "aws freetier upgrade-account-plan --account-plan-type PAID" in str(refused.value.hint)


@pytest.mark.parametrize(
    "answer", [{"accountPlanType": "PAID"}, failure("ResourceNotFoundException")]
)
def test_a_paid_plan_and_an_account_older_than_the_plans_are_accepted(answer: Any) -> None:
    assert warnings(account_with(answer)) == []


@pytest.mark.parametrize(
    "answer",
    [
        failure("AccessDeniedException"),
        UnknownServiceError(service_name="freetier", known_service_names="ec2"),
        EndpointConnectionError(endpoint_url="https://freetier.us-east-1.amazonaws.com"),
    ],
)
def test_a_plan_that_is_not_known_is_a_warning(answer: Any) -> None:
    (warning,) = warnings(account_with(answer))
    assert "the account's plan is not known" in warning
    assert "freetier:GetAccountPlanState" in warning


def test_a_boto3_without_the_call_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    account = Account()
    monkeypatch.setattr(account.at("us-east-1"), "client", lambda service: object())
    (warning,) = warnings(account)
    assert "boto3 before July 2025" in warning


def test_the_plan_is_not_checked_in_partitions_without_plans() -> None:
    account = Account("cn-north-1")
    aws_account_plan.check(account, lambda _: None)
    assert account.elsewhere == {}


@pytest.mark.parametrize(
    ("said", "remedy"),
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
def test_refusals_of_new_accounts_have_their_remedies(
    det: Det, account: MotoAccount, terraform: FakeTerraform, said: str, remedy: str
) -> None:
    terraform.answers(apply={"out": error_event("creating", f"api error {said}"), "code": 1})
    ran = det("deploy", "aws", "up", "--yes", *account.where)
    assert ran.code == 1
    assert said in ran.err
    assert remedy in ran.err
