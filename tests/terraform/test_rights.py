"""Every role that rents machines may do what docs/reference/aws.md and gcp.md say that renting takes."""

import re
from collections.abc import Callable

import pytest

from tests.support.terraform import INFRA

DOCS = INFRA.parent.parent / "docs"
ACTION = r"(?:ec2|ssm|iam|sts|pricing|kms):\w+"
# Asked for by options only, or done without (`DET_AWS_PRICE_LIST=false`, denials that stay encoded).
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
    """Return what is granted to `provision` alone, not what attaches functions to the network."""
    text = (INFRA / "modules/aws/controlplane/roles.tf").read_text("utf-8")
    statements = re.findall(r"^  dynamic \"statement\" \{\n(.*?)^  \}", text, re.M | re.S)
    own = [s for s in statements if 'each.key == "provision" ? [1]' in s]
    return set(re.findall(f'"({ACTION})"', "".join(own)))


def test_the_page_names_what_a_launch_asks() -> None:
    assert {"ec2:RunInstances", "ec2:DescribeSubnets", "iam:PassRole"} <= documented()


@pytest.mark.parametrize("granted", [of_the_stack, of_the_example])
def test_a_role_that_rents_has_every_documented_right(granted: Callable[[], set[str]]) -> None:
    assert documented() - granted() == set()


def test_the_renting_function_cannot_create_roles() -> None:
    assert "iam:PassRole" in of_the_stack()
    assert "iam:CreateServiceLinkedRole" not in of_the_stack()


def test_the_renting_function_can_decode_denials() -> None:
    assert "sts:DecodeAuthorizationMessage" in of_the_stack()


def google_documented() -> set[str]:
    """Return the permissions of the page's table, whose rows leave out what the first of a cell begins with."""
    page = (DOCS / "reference" / "gcp.md").read_text("utf-8")
    table = page.split("## Permissions")[1].split("\nThe module")[0]
    found: set[str] = set()
    for row in re.findall(r"^\| (.*?) \|", table, re.M):
        kind = ""
        for name in re.findall(r"`((?:compute)?\.[\w.]+)`", row):
            kind = name.rpartition(".")[0] if name.startswith("compute") else kind
            found.add(name if name.startswith("compute") else kind + name)
    return found


def test_what_rents_on_google_cloud_has_every_documented_right_and_no_other() -> None:
    text = (INFRA / "modules/gcp/renting/main.tf").read_text("utf-8")
    granted = set(re.findall(r'"(compute\.\w+\.\w+)"', text))
    assert granted == google_documented()


@pytest.mark.parametrize(
    "stack", ["modules/gcp/controlplane/accounts.tf", "examples/gcp-for-aws/main.tf"]
)
def test_whoever_rents_on_google_cloud_is_given_that(stack: str) -> None:
    text = (INFRA / stack).read_text("utf-8")
    assert re.search(r'source += "(\.\./)+(modules/gcp/)?renting"', text)
    assert "roles/compute" not in text
