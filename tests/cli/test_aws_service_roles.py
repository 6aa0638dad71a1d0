"""`up` creates service-linked roles before services need them, and waits until they are ready."""

from typing import Any

import pytest
from botocore.exceptions import ClientError
from det_cli.deployment import aws_service_roles
from det_cli.deployment.aws_account import Aws
from det_cli.deployment.aws_service_roles import RDS, SPOT

from tests.cli.conftest import Det
from tests.support.aws_account import Account
from tests.support.fake_terraform import FakeTerraform, error_event

SPOT_POOL = ("--spot", "--compute-agent-instance-type", "g5.xlarge")
RDS_REFUSALS = [
    "InvalidParameterValue: Unable to create the resource. Verify that you have permission to create service linked"
    " role. Otherwise wait and try again later",
    "InvalidParameterValue: Missing necessary credentials. Please check"
    " http://docs.aws.amazon.com/AmazonRDS/latest/UserGuide/UsingWithRDS.IAM.ServiceLinkedRoles.html",
]


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    delays: list[float] = []
    monkeypatch.setattr("det_cli.deployment.aws_service_roles.time.sleep", delays.append)
    monkeypatch.setattr(aws_service_roles, "SETTLE_S", 15.0)
    return delays


@pytest.fixture
def aws(account: Account) -> Aws:
    return Aws("us-west-2", account.url)


def roles(account: Account) -> set[str]:
    all_roles = account.client("iam").list_roles(PathPrefix="/aws-service-role/")["Roles"]
    return {role["RoleName"] for role in all_roles}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), {"AWSServiceRoleForRDS"}),
        (SPOT_POOL, {"AWSServiceRoleForRDS", "AWSServiceRoleForEC2Spot"}),
        (
            ("--var", "relay=true"),
            {"AWSServiceRoleForRDS", "AWSServiceRoleForCloudFrontVPCOrigin"},
        ),
    ],
)
def test_up_creates_the_roles_that_the_cluster_needs_before_terraform_runs(
    det: Det, account: Account, terraform: FakeTerraform, pauses: list[float],
    options: tuple[str, ...], expected: set[str],
) -> None:  # fmt: skip
    terraform.answers(apply={"out": error_event("creating", "stopped here"), "code": 1})
    result = det("deploy", "aws", "up", "--yes", *options, *account.where)
    assert "stopped here" in result.err
    assert roles(account) == expected
    assert 15.0 in pauses, "other services see IAM changes later"


def test_an_existing_role_needs_no_wait(account: Account, pauses: list[float], aws: Aws) -> None:
    aws_service_roles.create(aws, [RDS], lambda _: None)
    pauses.clear()
    messages: list[str] = []
    aws_service_roles.create(aws, [RDS], messages.append)
    assert (pauses, messages) == ([], [])


def test_a_dry_run_creates_no_role(det: Det, account: Account, terraform: FakeTerraform) -> None:
    det("deploy", "aws", "up", "--dry-run", *account.where)
    assert roles(account) == set()


@pytest.mark.parametrize("refusal", RDS_REFUSALS)
def test_up_continues_when_the_new_role_is_ready(
    det: Det, account: Account, terraform: FakeTerraform, pauses: list[float], refusal: str
) -> None:
    early = {"out": error_event("creating RDS Cluster", f"api error {refusal}"), "code": 1}
    late = {"out": error_event("creating", "stopped here"), "code": 1}
    terraform.answers(apply=[early, early, late])
    result = det("deploy", "aws", "up", "--yes", *account.where)
    assert "stopped here" in result.err
    assert len(terraform.calls("apply")) == 3


def test_reports_a_role_that_is_never_ready(
    det: Det, account: Account, terraform: FakeTerraform, pauses: list[float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(aws_service_roles, "_PATIENCE_S", -1.0)
    early = {"out": error_event("creating", f"api error {RDS_REFUSALS[0]}"), "code": 1}
    terraform.answers(apply=early)
    result = det("deploy", "aws", "up", "--yes", *account.where)
    assert "Verify that you have permission" in result.err
    assert len(terraform.calls("apply")) == 1


class Denying:
    """An operator without the permissions to read and create roles."""

    def client(self, service: str) -> Any:
        return self

    def get_role(self, RoleName: str) -> Any:
        raise ClientError({"Error": {"Code": "AccessDenied"}}, "GetRole")

    def create_service_linked_role(self, AWSServiceName: str) -> Any:
        raise ClientError({"Error": {"Code": "AccessDenied"}}, "CreateServiceLinkedRole")


def test_without_the_permission_the_error_has_the_command_for_an_administrator() -> None:
    with pytest.raises(Exception, match="the role AWSServiceRoleForEC2Spot is missing") as error:
        aws_service_roles.create(Denying(), [SPOT], lambda _: None)
    hint = str(getattr(error.value, "hint", ""))
    assert "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com" in hint
