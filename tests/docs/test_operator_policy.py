"""The operator policy in the AWS guide covers the names of all IAM resources of the stack."""

import re

import pytest

from tests.support.aws_rights import Call
from tests.support.cluster import ROOT
from tests.support.operator_policy import policy_of_operators

MODULES = ROOT / "infra" / "terraform" / "modules" / "aws"
_MADE = re.compile(
    r'resource "aws_iam_(role|instance_profile)" "\w+" \{\n(?:.*\n)*?  name +=+ "\$\{var\.name\}-(.+)"'
)
ACCOUNT = "arn:aws:iam::123456789012"


def made() -> list[tuple[str, str]]:
    resources = [
        m.groups()
        for path in sorted(MODULES.glob("*/*.tf"))
        for m in _MADE.finditer(path.read_text("utf-8"))
    ]
    return [(kind.replace("_", "-"), part) for kind, part in resources]


def test_every_role_and_profile_of_the_stack_has_the_clusters_name() -> None:
    resources = [
        m for path in MODULES.glob("*/*.tf")
        for m in re.findall(r'^resource "aws_iam_(?:role|instance_profile)"', path.read_text("utf-8"), re.MULTILINE)
    ]  # fmt: skip
    assert len(made()) == len(resources) > 4
    assert 'name = "det-${var.cluster_id}"' in (ROOT / "infra/terraform/aws/main.tf").read_text(
        "utf-8"
    )


@pytest.mark.parametrize(("kind", "part"), made())
def test_policy_allows_terraforms_actions_on_each_role_and_profile(kind: str, part: str) -> None:
    policy = policy_of_operators()
    for action in ("iam:CreateRole", "iam:PassRole", "iam:DeleteInstanceProfile"):
        assert policy.allows(Call("ada", action, f"{ACCOUNT}:{kind}/det-team-{part}"))


@pytest.mark.parametrize(
    "name", ["user/ada", "role/admin", "policy/det-team", "role/aws-service-role/det-x"]
)
def test_policy_forbids_changes_of_other_resources(name: str) -> None:
    for action in ("iam:CreateRole", "iam:PutRolePolicy", "iam:CreateAccessKey", "iam:PassRole"):
        assert not policy_of_operators().allows(Call("ada", action, f"{ACCOUNT}:{name}"))
