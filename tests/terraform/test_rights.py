"""Every role that rents machines has the permissions that docs/reference/aws.md and gcp.md document."""

import re
from collections.abc import Callable

import pytest

from tests.support.terraform import INFRA

DOCS = INFRA.parent.parent / "docs"
ACTION = r"(?:ec2|ssm|iam|sts|pricing|kms):\w+"
# Permissions for options, and permissions that are not required (`DET_AWS_PRICE_LIST=false`, encoded denials).
OPTIONAL = re.compile(r"pricing:|kms:|sts:DecodeAuthorizationMessage|iam:CreateServiceLinkedRole")


def documented() -> set[str]:
    page = (DOCS / "reference" / "aws.md").read_text("utf-8")
    table = page.split("## Permissions")[1].split("\nEvery created resource")[0]
    return {action for action in re.findall(ACTION, table) if not OPTIONAL.match(action)}


def of_the_example() -> set[str]:
    text = (INFRA / "examples/aws-for-gcp/main.tf").read_text("utf-8")
    policy = text.split('data "aws_iam_policy_document" "provision"')[1].split("\nresource ")[0]
    return set(re.findall(f'"({ACTION})"', policy))


def of_the_stack() -> set[str]:
    """Return the permissions of `provision` only, without those for attaching functions to the network."""
    text = (INFRA / "modules/aws/controlplane/roles.tf").read_text("utf-8")
    statements = re.findall(r"^  dynamic \"statement\" \{\n(.*?)^  \}", text, re.M | re.S)
    statements_of_provision = [s for s in statements if 'each.key == "provision" ? [1]' in s]
    return set(re.findall(f'"({ACTION})"', "".join(statements_of_provision)))


def test_page_documents_the_permissions_of_a_launch() -> None:
    assert {"ec2:RunInstances", "ec2:DescribeSubnets", "iam:PassRole"} <= documented()


@pytest.mark.parametrize("granted", [of_the_stack, of_the_example])
def test_renting_role_has_every_documented_permission(granted: Callable[[], set[str]]) -> None:
    assert documented() - granted() == set()


def test_renting_function_cannot_create_roles() -> None:
    assert "iam:PassRole" in of_the_stack()
    assert "iam:CreateServiceLinkedRole" not in of_the_stack()


def test_renting_function_can_decode_denials() -> None:
    assert "sts:DecodeAuthorizationMessage" in of_the_stack()


def google_documented() -> set[str]:
    """Return the permissions in the page's table. A cell gives the resource type only for its first permission."""
    page = (DOCS / "reference" / "gcp.md").read_text("utf-8")
    table = page.split("## Permissions")[1].split("\nThe module")[0]
    permissions: set[str] = set()
    for row in re.findall(r"^\| (.*?) \|", table, re.M):
        kind = ""
        for name in re.findall(r"`((?:compute)?\.[\w.]+)`", row):
            kind = name.rpartition(".")[0] if name.startswith("compute") else kind
            permissions.add(name if name.startswith("compute") else kind + name)
    return permissions


def test_google_role_has_exactly_the_documented_permissions() -> None:
    text = (INFRA / "modules/gcp/renting/main.tf").read_text("utf-8")
    permissions = set(re.findall(r'"(compute\.\w+\.\w+)"', text))
    assert permissions == google_documented()


@pytest.mark.parametrize(
    "stack", ["modules/gcp/controlplane/accounts.tf", "examples/gcp-for-aws/main.tf"]
)
def test_renting_accounts_on_google_cloud_get_that_role(stack: str) -> None:
    text = (INFRA / stack).read_text("utf-8")
    assert re.search(r'source += "(\.\./)+(modules/gcp/)?renting"', text)
    assert "roles/compute" not in text
