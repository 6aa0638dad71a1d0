"""The checks of `det deploy aws up` before any change. Each error has a hint with the next command."""

import re
import socket
from typing import Any, cast

import pytest
from det_cli.deployment import aws_checks, aws_preflight
from det_cli.deployment.aws import AwsDeployment
from det_cli.deployment.aws_account import Aws
from det_cli.deployment.cluster import ClusterSpec
from det_cli.errors import CommandError

from tests.support.preflight_account import Account, failure, offerings


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Return the set of host names that do not resolve. Tests add names to it."""
    unknown: set[str] = set()
    monkeypatch.setattr(aws_checks, "resolves", lambda host: host not in unknown)
    return unknown


HERE = {"type": "aws", "region": "us-west-2", "instance_type": "g5.xlarge", "spot": True}


def checked(account: Account, pool: dict[str, Any] | None = None, **variables: Any) -> list[str]:
    messages: list[str] = []
    config = {"resource_pools": [{"pool_name": "gpus", **(pool or {"provider": HERE})}]}
    rentals = aws_preflight.rentals_of(config)
    aws_preflight.check_place(account, rentals, messages.append)
    aws_preflight.check_name(account, "box")
    aws_preflight.check_limits(account, "box", rentals, variables, messages.append)
    return messages


def test_an_account_with_all_permissions_gets_no_warnings() -> None:
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
            "gpus cannot rent machines: us-west-2 has no machines of type g5.xlarge", "another type or --region",
        ),
    ],
)  # fmt: skip
def test_rejects_invalid_settings_with_a_hint(
    operation: str, answer: Any, cause: str, remedy: str
) -> None:
    account = Account()
    account.answers[operation] = answer
    with pytest.raises(CommandError) as error:
        checked(account)
    assert cause in str(error.value)
    assert remedy in str(error.value.hint)


def test_warns_about_a_quota_of_zero() -> None:
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
    rental = aws_preflight.Rental("gpus", "us-west-2", "", instance_type, spot)
    list(aws_preflight.quota_warnings(account, [rental]))
    assert account.asked["get_service_quota"]["QuotaCode"] == code


NO_QUOTA = {"Quota": {"Value": 0.0}}
OFFERS = [
    {"type": "aws", "regions": ["us-west-2", "eu-west-1"], "instance_types": ["g5.xlarge", "g6.xlarge"],
     "capacity": ["spot", "on-demand"]},
]  # fmt: skip


def test_checks_the_quota_of_every_offer_of_a_pool() -> None:
    """The check includes all listed types, both capacities and other regions."""
    account = Account()
    account.answers["get_service_quota"] = NO_QUOTA
    other = account.at("eu-west-1")
    other.answers["describe_instance_type_offerings"] = offerings(
        ("g5.xlarge", "eu-west-1a"), ("g6.xlarge", "eu-west-1a")
    )
    other.answers["get_service_quota"] = NO_QUOTA
    warnings = checked(account, pool={"offers": OFFERS})
    phrases = {
        f"{name} ({kind}) in {region}," for name in ("g5.xlarge", "g6.xlarge") for kind in ("spot", "on-demand")
        for region in ("us-west-2", "eu-west-1")
    }  # fmt: skip
    assert {phrase for phrase in phrases for w in warnings if phrase in w} == phrases
    assert len(warnings) == 8


def test_warns_about_a_type_that_one_of_several_regions_lacks() -> None:
    account = Account()
    account.at("eu-west-1").answers["describe_instance_type_offerings"] = offerings(
        ("g5.xlarge", "eu-west-1a")
    )
    assert checked(account, pool={"offers": OFFERS}) == [
        "warning: eu-west-1 has no machines of type g6.xlarge: gpus rents its other types"
    ]


def test_rejects_a_pool_without_machines_in_another_region() -> None:
    account = Account()
    account.at("eu-west-1").answers["describe_instance_type_offerings"] = offerings()
    pool = {"provider": {**HERE, "region": "eu-west-1"}}
    with pytest.raises(CommandError, match=r"eu-west-1 has no machines of type g5\.xlarge"):
        checked(account, pool=pool)


def test_rejects_a_zone_without_the_type() -> None:
    account = Account()
    account.answers["describe_instance_type_offerings"] = offerings(("g5.xlarge", "us-west-2b"))
    pool = {"provider": {**HERE, "zone": "us-west-2a"}}
    with pytest.raises(CommandError, match=r"us-west-2a has no machines of type g5\.xlarge"):
        checked(account, pool=pool)


@pytest.mark.parametrize("zone", ["", "us-west-2b"])
def test_pools_search_machines_only_in_the_zones_of_the_cluster(
    zone: str,
) -> None:
    account = Account()
    account.answers["describe_instance_type_offerings"] = offerings(("g5.xlarge", "us-west-2b"))
    pool = {"provider": {**HERE, **({"zone": zone} if zone else {})}}
    checked(account, pool=pool)
    config = {"resource_pools": [{"pool_name": "gpus", **pool}]}
    deployment = AwsDeployment(
        ClusterSpec("box", "us-west-2", config, {"zones": ["us-west-2a", "us-west-2c"]}),
        lambda _: None,
    )
    deployment.account = cast(Aws, account)
    with pytest.raises(CommandError, match="within zones=us-west-2a,us-west-2c has no machines"):
        deployment.plan()


def test_a_pool_with_its_own_subnets_is_not_limited_to_the_clusters_zones() -> None:
    own = {**HERE, "network_interface": {"subnet_ids": ["subnet-1"]}}
    config = {"resource_pools": [{"pool_name": "gpus", "provider": own}]}
    (rental,) = aws_preflight.rentals_of(config, "us-west-2", ["us-west-2a"])
    assert rental.subnets_in == ()


def test_rejects_a_disabled_region_of_a_pool() -> None:
    account = Account()
    account.at("eu-west-1").answers["describe_regions"] = {
        "Regions": [{"OptInStatus": "not-opted-in"}]
    }
    with pytest.raises(CommandError, match="has not enabled the region eu-west-1"):
        checked(account, pool={"offers": OFFERS})


def test_an_upgrade_may_use_the_clusters_reserved_concurrency() -> None:
    account = Account()
    account.answers["get_account_settings"] = {
        "AccountLimit": {"UnreservedConcurrentExecutions": 105}
    }
    with pytest.raises(CommandError, match="may run 105 functions"):
        checked(account)
    account.answers["get_function_concurrency"] = {"ReservedConcurrentExecutions": 12}
    assert checked(account) == []


@pytest.mark.parametrize(
    ("operation", "answer", "cause"),
    [
        ("simulate_principal_policy",
         {"EvaluationResults": [{"EvalActionName": "iam:PassRole", "EvalDecision": "implicitDeny"}]},
         "may not iam:PassRole"),
        ("describe_instance_type_offerings", offerings(), "no machines of type g5.xlarge"),
    ],
)  # fmt: skip
def test_checks_an_existing_cluster_again(operation: str, answer: Any, cause: str) -> None:
    """The first `up` may have failed, and an upgrade may use other machines."""
    account = AccountWithCluster([])
    account.answers["get_role"] = {"Role": {"Arn": "arn:x"}}  # the cluster's own role
    account.answers[operation] = answer
    config = {"resource_pools": [{"pool_name": "gpus", "provider": HERE}]}
    deployment = AwsDeployment(ClusterSpec("box", "us-west-2", config), lambda _: None)
    deployment.account = cast(Aws, account)
    with pytest.raises(CommandError, match=cause):
        deployment.plan()


def test_a_cluster_without_reserved_concurrency_needs_no_quota() -> None:
    account = Account()
    account.answers["get_account_settings"] = {
        "AccountLimit": {"UnreservedConcurrentExecutions": 10}
    }
    assert checked(account, api_concurrency=-1) == []


def test_skips_checks_that_the_operator_may_not_run() -> None:
    account = Account()
    account.answers = {name: failure("AccessDenied") for name in account.answers}
    assert checked(account) == []


def test_simulates_the_role_of_a_session() -> None:
    account = Account()
    session = "arn:aws:sts::123456789012:assumed-role/Admin/ada"
    account.answers["get_caller_identity"] = {"Arn": session}
    account.answers["get_role"] = {"Role": {"Arn": "arn:aws:iam::123456789012:role/sso/Admin"}}
    aws_preflight.check_rights(account, aws_preflight.Needed(["iam:CreateRole"]))
    request = account.asked["simulate_principal_policy"]
    assert request["PolicySourceArn"] == "arn:aws:iam::123456789012:role/sso/Admin"


def test_accepts_permissions_for_the_clusters_names_only() -> None:
    account = Account()
    own = re.compile(r"arn:aws:iam::\d+:(role/det-|role/aws-service-role/|instance-profile/det-)")

    def simulate(**parameters: Any) -> Any:
        names = [n for n in parameters["ActionNames"] if n.startswith("iam:")]
        denied = [] if own.match(*parameters["ResourceArns"]) else names
        results = [{"EvalActionName": n, "EvalDecision": "implicitDeny"} for n in denied]
        return {"EvaluationResults": results}

    account.simulate_principal_policy = simulate  # type: ignore[attr-defined]
    assert checked(account) == []


@pytest.mark.parametrize(
    ("variables", "right"),
    [
        ({}, "lambda:CreateFunctionUrlConfig"),
        ({}, "rds:CreateDBCluster"),
        ({"database": "rds"}, "rds:CreateDBInstance"),
        ({"endpoint": "api_gateway"}, "apigateway:POST"),
        ({"alarm_topic_arn": "arn:aws:sns:us-west-2:123456789012:ops"}, "cloudwatch:PutMetricAlarm"),
        ({"monthly_budget_usd": 250}, "budgets:ModifyBudget"),
        ({"machine_external_ip": False}, "ec2:CreateNatGateway"),
        ({"relay": True}, "cloudfront:CreateVpcOrigin"),
    ],
)  # fmt: skip
def test_each_option_requires_only_its_own_permission(
    variables: dict[str, Any], right: str
) -> None:
    account = Account()
    decision = {"EvalActionName": right, "EvalDecision": "implicitDeny"}

    def simulate(**parameters: Any) -> Any:
        return {"EvaluationResults": [decision] if right in parameters["ActionNames"] else []}

    account.simulate_principal_policy = simulate  # type: ignore[attr-defined]
    with pytest.raises(CommandError, match=f"user/ada may not {right}"):
        checked(account, **variables)
    other: dict[str, Any] = (
        {"endpoint": "api_gateway"} if "FunctionUrl" in right else {"database": "rds"}
    )
    assert checked(account, **({} if variables else other)) == []


@pytest.mark.parametrize(
    ("variables", "role", "service"),
    [
        ({}, "AWSServiceRoleForRDS", "rds.amazonaws.com"),
        (
            {"relay": True}, "AWSServiceRoleForCloudFrontVPCOrigin", "vpcorigin.cloudfront.amazonaws.com",
        ),
    ],
)  # fmt: skip
def test_a_missing_service_linked_role_requires_the_permission_to_create_it(
    variables: dict[str, Any], role: str, service: str
) -> None:
    account = Account()
    roles: list[str] = []
    decision = {"EvalActionName": "iam:CreateServiceLinkedRole", "EvalDecision": "implicitDeny"}

    def get_role(RoleName: str) -> Any:
        if RoleName in roles:
            return {"Role": {"Arn": f"arn:aws:iam::123456789012:role/{RoleName}"}}
        raise failure("NoSuchEntity")

    def simulate(**parameters: Any) -> Any:
        services = [v for e in parameters.get("ContextEntries", ()) for v in e["ContextKeyValues"]]
        return {"EvaluationResults": [decision] if services == [service] else []}

    account.get_role = get_role  # type: ignore[attr-defined]
    account.simulate_principal_policy = simulate  # type: ignore[attr-defined]
    with pytest.raises(CommandError, match="may not iam:CreateServiceLinkedRole"):
        checked(account, **variables)
    roles.append(role)
    assert checked(account, **variables) == []


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        ("ExpiredToken", "the session at AWS has expired"),
        ("InvalidClientTokenId", "AWS does not accept the credentials"),
    ],
)
def test_distinguishes_expired_and_invalid_credentials(
    monkeypatch: pytest.MonkeyPatch, code: str, cause: str
) -> None:
    account = Account()
    account.answers["get_caller_identity"] = failure(code)
    monkeypatch.setattr(Aws, "client", lambda *_: account)
    with pytest.raises(CommandError, match=cause):
        _ = Aws("us-west-2").account


class AccountWithCluster(Account):
    """An account with the cluster `box`, which was created with these variables."""

    def __init__(self, variables: list[str]) -> None:
        super().__init__()
        self.variables = variables

    def clusters(self) -> list[str]:
        return ["box"]

    def options(self, cluster_id: str) -> dict[str, Any]:
        return {"var": self.variables}


def deployment(account: Account, **variables: Any) -> AwsDeployment:
    result = AwsDeployment(ClusterSpec("box", "us-west-2", {}, variables), lambda _: None)
    result.account = cast(Aws, account)
    return result


@pytest.mark.parametrize("stored", [[], ["relay=false"]])
def test_adding_a_relay_later_requires_its_permissions(stored: list[str]) -> None:
    """Terraform failed during the apply, because only new clusters were checked."""
    account = AccountWithCluster(stored)
    decision = {"EvalActionName": "cloudfront:CreateDistribution", "EvalDecision": "implicitDeny"}
    account.answers["simulate_principal_policy"] = {"EvaluationResults": [decision]}
    with pytest.raises(CommandError, match="user/ada may not cloudfront:CreateDistribution"):
        deployment(account, relay=True, runtime="python3.11").plan()


@pytest.mark.parametrize("runtime", ["python3.10", "python3.14"])
def test_rejects_a_python_version_that_lambda_does_not_support(
    runtime: str,
) -> None:
    with pytest.raises(CommandError, match=f"runs in {re.escape(runtime)}") as error:
        deployment(Account(), runtime=runtime).plan()
    assert "python3.11, python3.12, python3.13" in str(error.value.hint)


def test_rejects_an_aws_budget_without_recipients() -> None:
    with pytest.raises(CommandError, match="a budget without recipients") as error:
        deployment(Account(), monthly_budget_usd=250).plan()
    assert "--var 'budget_emails=[" in str(error.value.hint)


def test_rejects_a_region_that_functions_cannot_reach(
    names: set[str],
) -> None:
    """Functions reach AWS only by IPv6, and EC2 has no IPv6 endpoint in some regions."""
    names.add("ec2.eu-south-2.api.aws")
    pool = {"provider": {**HERE, "region": "eu-south-2"}}
    config = {"resource_pools": [{"pool_name": "gpus", **pool}]}
    account = Account()
    account.at("eu-south-2").answers["describe_instance_type_offerings"] = offerings(
        ("g5.xlarge", "eu-south-2a")
    )
    deployment = AwsDeployment(ClusterSpec("box", "us-west-2", config), lambda _: None)
    deployment.account = cast(Aws, account)
    account.clusters = lambda: ["box"]  # type: ignore[attr-defined]
    with pytest.raises(CommandError, match=r"no endpoints ec2\.eu-south-2\.api\.aws") as error:
        deployment.plan()
    assert "--var machine_external_ip=false" in str(error.value.hint)


def test_with_a_nat_gateway_functions_reach_every_region(names: set[str]) -> None:
    names.add("ec2.eu-south-2.api.aws")
    aws_checks.check_endpoints("eu-south-2", [], {"machine_external_ip": False})


def test_accepts_regions_if_this_machine_resolves_no_aws_names(names: set[str]) -> None:
    names |= {f"ec2.eu-south-2.{domain}" for domain in ("api.aws", "amazonaws.com")}
    aws_checks.check_endpoints("eu-south-2", [], {})


@pytest.mark.parametrize(
    ("error", "known"),
    [(None, True), (socket.EAI_NONAME, False), (socket.EAI_AGAIN, True)],
    ids=["an address", "no such name", "no resolver"],
)
def test_only_an_unknown_host_name_counts_as_missing(
    monkeypatch: pytest.MonkeyPatch, error: int | None, known: bool
) -> None:
    def look_up(*_: object) -> list[object]:
        if error is not None:
            raise socket.gaierror(error, "failed")
        return []

    monkeypatch.undo()
    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    assert aws_checks.resolves("ec2.us-west-2.api.aws") is known
