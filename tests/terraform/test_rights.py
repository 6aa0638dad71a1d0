"""Every role that rents machines on AWS may do what docs/reference/aws.md says that renting takes."""

import re
from collections.abc import Callable

import pytest

from tests.support.terraform import INFRA

DOCS = INFRA.parent.parent / "docs"
ACTION = r"(?:ec2|ssm|iam|sts|pricing|kms):\w+"
# Asked for by options only, or done without (`DET_AWS_PRICE_LIST=false`, denials that stay encoded).
OPTIONAL = re.compile(r"pricing:|kms:|sts:DecodeAuthorizationMessage")


def documented() -> set[str]:
    page = (DOCS / "reference" / "aws.md").read_text("utf-8")
    table = page.split("## Permissions")[1].split("\nEverything that is made")[0]
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
