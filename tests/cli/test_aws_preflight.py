"""What `det deploy aws up` finds out before it makes anything: each time one sentence and the next command."""

from collections.abc import Callable
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError
from det_cli.deployment import aws_preflight
from det_cli.deployment.aws import Aws, AwsDeployment
from det_cli.deployment.cluster import Wanted
from det_cli.errors import CommandError

Answer = Callable[..., Any]


def failure(code: str, message: str = "") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message}}, "Operation")


class Account:
    """An account that can do everything, unless a test says otherwise."""

    region = "us-west-2"
    account = "123456789012"

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {
            "describe_regions": {"Regions": [{"OptInStatus": "opt-in-not-required"}]},
            "get_caller_identity": {"Arn": "arn:aws:iam::123456789012:user/ada"},
            "simulate_principal_policy": {"EvaluationResults": []},
            "get_role": failure("NoSuchEntity"),
            "get_account_settings": {"AccountLimit": {"UnreservedConcurrentExecutions": 1000}},
            "describe_instance_type_offerings": {"InstanceTypeOfferings": [{}]},
            "describe_instance_types": {"InstanceTypes": [{"VCpuInfo": {"DefaultVCpus": 4}}]},
            "get_service_quota": {"Quota": {"Value": 64.0}},
        }
        self.asked: dict[str, Any] = {}

    def client(self, service: str) -> Any:
        return self

    def __getattr__(self, operation: str) -> Answer:
        answer = self.answers[operation]

        def call(**parameters: Any) -> Any:
            self.asked[operation] = parameters
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call


POOL = {
    "pool_name": "gpus",
    "provider": {"type": "aws", "region": "us-west-2", "instance_type": "g5.xlarge", "spot": True},
}


def checked(account: Account, concurrency: int = 50) -> list[str]:
    said: list[str] = []
    aws_preflight.check_place(account, "box", [POOL])
    aws_preflight.check_limits(account, [POOL], concurrency, said.append)
    return said


def test_an_account_that_can_do_everything_hears_nothing() -> None:
    assert checked(Account()) == []


@pytest.mark.parametrize(
    ("operation", "answer", "cause", "remedy"),
    [
        ("describe_regions", {"Regions": []}, "no region us-west-2", "describe-regions"),
        (
            "describe_regions", {"Regions": [{"OptInStatus": "not-opted-in"}]}, "has not enabled",
            "enable-region --region-name us-west-2",
        ),
        (
            "simulate_principal_policy",
            {
                "EvaluationResults": [
                    {"EvalActionName": "iam:CreateRole", "EvalDecision": "implicitDeny"},
                    {"EvalActionName": "s3:CreateBucket", "EvalDecision": "allowed"},
                ]
            },
            "user/ada may not iam:CreateRole", "AWS_PROFILE",
        ),
        ("get_role", {"Role": {"Arn": "arn:x"}}, "the name box is taken", "another --cluster-id"),
        (
            "get_account_settings", {"AccountLimit": {"UnreservedConcurrentExecutions": 10}},
            "may run 10 functions at once", "--var api_concurrency=-1",
        ),
        (
            "describe_instance_type_offerings", {"InstanceTypeOfferings": []},
            "us-west-2 has no machines of type g5.xlarge", "another type or --region",
        ),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused_with_the_next_command(
    operation: str, answer: Any, cause: str, remedy: str
) -> None:
    account = Account()
    account.answers[operation] = answer
    with pytest.raises(CommandError) as refused:
        checked(account)
    assert cause in str(refused.value)
    assert remedy in str(refused.value.hint)


def test_a_quota_of_zero_is_told_and_does_not_keep_the_cluster_away() -> None:
    account = Account()
    account.answers["get_service_quota"] = {"Quota": {"Value": 0.0}}
    (warning,) = checked(account)
    assert "may run 0 processors of g5.xlarge (spot) in us-west-2" in warning
    assert "--quota-code L-3819A6DF --desired-value 4 --region us-west-2" in warning


@pytest.mark.parametrize(
    ("instance_type", "spot", "code"),
    [
        ("g4dn.xlarge", False, "L-DB2E81BA"), ("p4d.24xlarge", False, "L-417A185B"),
        ("p3.2xlarge", True, "L-7212CCBC"), ("p5.48xlarge", True, "L-C4BD4855"),
        ("m5.large", False, "L-1216C47A"), ("trn1.2xlarge", False, "L-2C3B7624"),
    ],
)  # fmt: skip
def test_each_family_has_its_quota(instance_type: str, spot: bool, code: str) -> None:
    account = Account()
    list(aws_preflight.quota_warnings(account, {"instance_type": instance_type, "spot": spot}))
    assert account.asked["get_service_quota"]["QuotaCode"] == code


def test_an_account_without_reservations_needs_no_room_for_them() -> None:
    account = Account()
    account.answers["get_account_settings"] = {
        "AccountLimit": {"UnreservedConcurrentExecutions": 10}
    }
    assert checked(account, concurrency=-1) == []


def test_what_the_operator_may_not_look_at_is_passed_over() -> None:
    account = Account()
    account.answers = {name: failure("AccessDenied") for name in account.answers}
    assert checked(account) == []


def test_the_rights_of_a_session_are_those_of_its_role() -> None:
    account = Account()
    session = "arn:aws:sts::123456789012:assumed-role/Admin/ada"
    account.answers["get_caller_identity"] = {"Arn": session}
    account.answers["get_role"] = {"Role": {"Arn": "arn:aws:iam::123456789012:role/sso/Admin"}}
    aws_preflight.check_rights(account)
    asked = account.asked["simulate_principal_policy"]
    assert asked["PolicySourceArn"] == "arn:aws:iam::123456789012:role/sso/Admin"


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        ("ExpiredToken", "the session at AWS has expired"),
        ("InvalidClientTokenId", "AWS does not accept the credentials"),
    ],
)
def test_credentials_that_no_longer_hold_are_told_apart(
    monkeypatch: pytest.MonkeyPatch, code: str, cause: str
) -> None:
    account = Account()
    account.answers["get_caller_identity"] = failure(code)
    monkeypatch.setattr(Aws, "client", lambda *_: account)
    with pytest.raises(CommandError, match=cause):
        _ = Aws("us-west-2").account


class AccountWithCluster(Account):
    """An account that has the cluster `box`, made with these variables."""

    def __init__(self, kept: list[str]) -> None:
        super().__init__()
        self.kept = kept

    def clusters(self) -> list[str]:
        return ["box"]

    def options(self, cluster_id: str) -> dict[str, Any]:
        return {"var": self.kept}


def deployment(account: Account, **variables: Any) -> AwsDeployment:
    made = AwsDeployment(Wanted("box", "us-west-2", {}, variables), lambda _: None)
    made.account = cast(Aws, account)
    return made


@pytest.mark.parametrize("kept", [[], ["relay=false"]])
def test_a_cluster_that_gets_a_relay_later_needs_the_rights_for_it(kept: list[str]) -> None:
    """Terraform failed in the middle, as only new clusters were looked at."""
    account = AccountWithCluster(kept)
    denied = {"EvalActionName": "cloudfront:CreateDistribution", "EvalDecision": "implicitDeny"}
    account.answers["simulate_principal_policy"] = {"EvaluationResults": [denied]}
    with pytest.raises(CommandError, match="user/ada may not cloudfront:CreateDistribution"):
        deployment(account, relay=True, runtime="python3.11").plan()


@pytest.mark.parametrize("runtime", ["python3.10", "python3.15"])
def test_a_relay_of_a_python_that_its_machine_cannot_install_is_refused(runtime: str) -> None:
    """The machine asked its packages for it for ever, and stayed on."""
    with pytest.raises(CommandError, match=f"no package of {runtime}") as refused:
        deployment(Account(), relay=True, runtime=runtime).plan()
    assert "python3.11, python3.12, python3.13, python3.14" in str(refused.value.hint)


def test_a_budget_of_aws_that_tells_nobody_is_refused() -> None:
    with pytest.raises(CommandError, match="tells nobody") as refused:
        deployment(Account(), monthly_budget_usd=250).plan()
    assert "--var 'budget_emails=[" in str(refused.value.hint)
