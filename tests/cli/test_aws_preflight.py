"""What `det deploy aws up` finds out before it makes anything: each time one sentence and the next command."""

import re
import socket
from typing import Any, cast

import pytest
from det_cli.deployment import aws_endpoints, aws_preflight
from det_cli.deployment.aws import AwsDeployment
from det_cli.deployment.aws_account import Aws
from det_cli.deployment.cluster import ClusterSpec
from det_cli.errors import CommandError

from tests.support.preflight_account import Account, failure, offerings


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Return the names that nothing has: those that are put there."""
    unknown: set[str] = set()
    monkeypatch.setattr(aws_endpoints, "resolves", lambda host: host not in unknown)
    return unknown


HERE = {"type": "aws", "region": "us-west-2", "instance_type": "g5.xlarge", "spot": True}


def checked(account: Account, pool: dict[str, Any] | None = None, **variables: Any) -> list[str]:
    said: list[str] = []
    config = {"resource_pools": [{"pool_name": "gpus", **(pool or {"provider": HERE})}]}
    rentals = aws_preflight.rentals_of(config)
    aws_preflight.check_place(account, rentals, said.append)
    aws_preflight.check_name(account, "box")
    aws_preflight.check_limits(account, "box", rentals, variables, said.append)
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
            "gpus finds no machines: us-west-2 has no machines of type g5.xlarge", "another type or --region",
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
    rental = aws_preflight.Rental("gpus", "us-west-2", "", instance_type, spot)
    list(aws_preflight.quota_warnings(account, [rental]))
    assert account.asked["get_service_quota"]["QuotaCode"] == code


NO_QUOTA = {"Quota": {"Value": 0.0}}
OFFERS = [
    {"type": "aws", "regions": ["us-west-2", "eu-west-1"], "instance_types": ["g5.xlarge", "g6.xlarge"],
     "capacity": ["spot", "on-demand"]},
]  # fmt: skip


def test_every_offer_of_a_pool_is_held_against_its_quota() -> None:
    """Types in a list, both capacities and other regions than the cluster's are looked at."""
    account = Account()
    account.answers["get_service_quota"] = NO_QUOTA
    there = account.at("eu-west-1")
    there.answers["describe_instance_type_offerings"] = offerings(
        ("g5.xlarge", "eu-west-1a"), ("g6.xlarge", "eu-west-1a")
    )
    there.answers["get_service_quota"] = NO_QUOTA
    warnings = checked(account, pool={"offers": OFFERS})
    told = {
        f"{name} ({kind}) in {region}," for name in ("g5.xlarge", "g6.xlarge") for kind in ("spot", "on demand")
        for region in ("us-west-2", "eu-west-1")
    }  # fmt: skip
    assert {phrase for phrase in told for w in warnings if phrase in w} == told
    assert len(warnings) == 8


def test_a_type_that_one_of_several_regions_lacks_is_said_and_not_refused() -> None:
    account = Account()
    account.at("eu-west-1").answers["describe_instance_type_offerings"] = offerings(
        ("g5.xlarge", "eu-west-1a")
    )
    assert checked(account, pool={"offers": OFFERS}) == [
        "warning: eu-west-1 has no machines of type g6.xlarge: gpus rents its others"
    ]


def test_a_pool_that_finds_nothing_in_another_region_is_refused() -> None:
    account = Account()
    account.at("eu-west-1").answers["describe_instance_type_offerings"] = offerings()
    pool = {"provider": {**HERE, "region": "eu-west-1"}}
    with pytest.raises(CommandError, match=r"eu-west-1 has no machines of type g5\.xlarge"):
        checked(account, pool=pool)


def test_a_zone_without_the_type_is_refused() -> None:
    account = Account()
    account.answers["describe_instance_type_offerings"] = offerings(("g5.xlarge", "us-west-2b"))
    pool = {"provider": {**HERE, "zone": "us-west-2a"}}
    with pytest.raises(CommandError, match=r"us-west-2a has no machines of type g5\.xlarge"):
        checked(account, pool=pool)


@pytest.mark.parametrize("zone", ["", "us-west-2b"])
def test_zones_that_are_named_for_the_cluster_bound_where_its_pools_find_machines(
    zone: str,
) -> None:
    account = Account()
    account.answers["describe_instance_type_offerings"] = offerings(("g5.xlarge", "us-west-2b"))
    pool = {"provider": {**HERE, **({"zone": zone} if zone else {})}}
    checked(account, pool=pool)
    config = {"resource_pools": [{"pool_name": "gpus", **pool}]}
    made = AwsDeployment(
        ClusterSpec("box", "us-west-2", config, {"zones": ["us-west-2a", "us-west-2c"]}),
        lambda _: None,
    )
    made.account = cast(Aws, account)
    with pytest.raises(CommandError, match="within zones=us-west-2a,us-west-2c has no machines"):
        made.plan()


def test_a_pool_with_subnets_of_its_own_is_not_bound_to_the_clusters_zones() -> None:
    own = {**HERE, "network_interface": {"subnet_ids": ["subnet-1"]}}
    config = {"resource_pools": [{"pool_name": "gpus", "provider": own}]}
    (rental,) = aws_preflight.rentals_of(config, "us-west-2", ["us-west-2a"])
    assert rental.subnets_in == ()


def test_a_region_of_a_pool_that_is_not_enabled_is_refused() -> None:
    account = Account()
    account.at("eu-west-1").answers["describe_regions"] = {
        "Regions": [{"OptInStatus": "not-opted-in"}]
    }
    with pytest.raises(CommandError, match="has not enabled the region eu-west-1"):
        checked(account, pool={"offers": OFFERS})


def test_what_a_cluster_has_reserved_is_free_for_its_upgrade() -> None:
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
def test_a_cluster_that_is_there_is_looked_at_again(
    operation: str, answer: Any, cause: str
) -> None:
    """The first `up` may have failed, and an upgrade may have other machines."""
    account = AccountWithCluster([])
    account.answers["get_role"] = {"Role": {"Arn": "arn:x"}}  # its own
    account.answers[operation] = answer
    config = {"resource_pools": [{"pool_name": "gpus", "provider": HERE}]}
    made = AwsDeployment(ClusterSpec("box", "us-west-2", config), lambda _: None)
    made.account = cast(Aws, account)
    with pytest.raises(CommandError, match=cause):
        made.plan()


def test_an_account_without_reservations_needs_no_room_for_them() -> None:
    account = Account()
    account.answers["get_account_settings"] = {
        "AccountLimit": {"UnreservedConcurrentExecutions": 10}
    }
    assert checked(account, api_concurrency=-1) == []


def test_what_the_operator_may_not_look_at_is_passed_over() -> None:
    account = Account()
    account.answers = {name: failure("AccessDenied") for name in account.answers}
    assert checked(account) == []


def test_the_rights_of_a_session_are_those_of_its_role() -> None:
    account = Account()
    session = "arn:aws:sts::123456789012:assumed-role/Admin/ada"
    account.answers["get_caller_identity"] = {"Arn": session}
    account.answers["get_role"] = {"Role": {"Arn": "arn:aws:iam::123456789012:role/sso/Admin"}}
    aws_preflight.check_rights(account, aws_preflight.Needed(["iam:CreateRole"]))
    asked = account.asked["simulate_principal_policy"]
    assert asked["PolicySourceArn"] == "arn:aws:iam::123456789012:role/sso/Admin"


def test_rights_on_names_of_the_cluster_alone_are_enough() -> None:
    account = Account()
    own = re.compile(r"arn:aws:iam::\d+:(role/det-|role/aws-service-role/|instance-profile/det-)")

    def simulate(**asked: Any) -> Any:
        names = [n for n in asked["ActionNames"] if n.startswith("iam:")]
        denied = [] if own.match(*asked["ResourceArns"]) else names
        told = [{"EvalActionName": n, "EvalDecision": "implicitDeny"} for n in denied]
        return {"EvaluationResults": told}

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
def test_an_option_asks_for_the_rights_that_it_needs_and_for_no_others(
    variables: dict[str, Any], right: str
) -> None:
    account = Account()
    denied = {"EvalActionName": right, "EvalDecision": "implicitDeny"}

    def simulate(**asked: Any) -> Any:
        return {"EvaluationResults": [denied] if right in asked["ActionNames"] else []}

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
def test_the_first_database_or_origin_of_an_account_needs_the_right_to_make_a_services_role(
    variables: dict[str, Any], role: str, service: str
) -> None:
    account = Account()
    roles: list[str] = []
    denied = {"EvalActionName": "iam:CreateServiceLinkedRole", "EvalDecision": "implicitDeny"}

    def get_role(RoleName: str) -> Any:
        if RoleName in roles:
            return {"Role": {"Arn": f"arn:aws:iam::123456789012:role/{RoleName}"}}
        raise failure("NoSuchEntity")

    def simulate(**asked: Any) -> Any:
        services = [v for e in asked.get("ContextEntries", ()) for v in e["ContextKeyValues"]]
        return {"EvaluationResults": [denied] if services == [service] else []}

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
    made = AwsDeployment(ClusterSpec("box", "us-west-2", {}, variables), lambda _: None)
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


@pytest.mark.parametrize("runtime", ["python3.10", "python3.14"])
def test_a_python_that_functions_cannot_have_is_refused_before_anything_is_made(
    runtime: str,
) -> None:
    with pytest.raises(CommandError, match=f"cannot run in {re.escape(runtime)}") as refused:
        deployment(Account(), runtime=runtime).plan()
    assert "python3.11, python3.12, python3.13" in str(refused.value.hint)


def test_a_budget_of_aws_that_tells_nobody_is_refused() -> None:
    with pytest.raises(CommandError, match="tells nobody") as refused:
        deployment(Account(), monthly_budget_usd=250).plan()
    assert "--var 'budget_emails=[" in str(refused.value.hint)


def test_a_region_that_functions_cannot_call_is_refused_before_anything_is_made(
    names: set[str],
) -> None:
    """Only IPv6 leaves their network, and AWS has no address of EC2 for that in some regions."""
    names.add("ec2.eu-south-2.api.aws")
    pool = {"provider": {**HERE, "region": "eu-south-2"}}
    config = {"resource_pools": [{"pool_name": "gpus", **pool}]}
    account = Account()
    account.at("eu-south-2").answers["describe_instance_type_offerings"] = offerings(
        ("g5.xlarge", "eu-south-2a")
    )
    made = AwsDeployment(ClusterSpec("box", "us-west-2", config), lambda _: None)
    made.account = cast(Aws, account)
    account.clusters = lambda: ["box"]  # type: ignore[attr-defined]
    with pytest.raises(CommandError, match=r"AWS has no ec2\.eu-south-2\.api\.aws") as refused:
        made.plan()
    assert "--var machine_external_ip=false" in str(refused.value.hint)


def test_with_a_gateway_for_ipv4_functions_call_every_region(names: set[str]) -> None:
    names.add("ec2.eu-south-2.api.aws")
    aws_endpoints.check("eu-south-2", [], {"machine_external_ip": False})


def test_a_machine_that_knows_no_names_of_aws_refuses_no_region(names: set[str]) -> None:
    names |= {f"ec2.eu-south-2.{domain}" for domain in ("api.aws", "amazonaws.com")}
    aws_endpoints.check("eu-south-2", [], {})


@pytest.mark.parametrize(
    ("error", "known"),
    [(None, True), (socket.EAI_NONAME, False), (socket.EAI_AGAIN, True)],
    ids=["an address", "no such name", "no resolver"],
)
def test_only_a_name_that_there_is_not_counts_as_missing(
    monkeypatch: pytest.MonkeyPatch, error: int | None, known: bool
) -> None:
    def look_up(*_: object) -> list[object]:
        if error is not None:
            raise socket.gaierror(error, "told")
        return []

    monkeypatch.undo()
    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    assert aws_endpoints.resolves("ec2.us-west-2.api.aws") is known
