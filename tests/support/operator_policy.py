"""The IAM policy in the guide for operators on AWS, beside AWS's own PowerUserAccess."""

import json
import re

from tests.support.aws_rights import Policy
from tests.support.cluster import ROOT

# The actions of IAM that PowerUserAccess allows.
OF_POWER_USERS = {"iam:CreateServiceLinkedRole", "iam:DeleteServiceLinkedRole", "iam:ListRoles"}
GUIDE = ROOT / "docs" / "guides" / "aws.md"


def policy_of_operators() -> Policy:
    rights = GUIDE.read_text("utf-8").partition("\n## Rights\n")[2]
    block = re.search(r"```json\n(.*?)```", rights, re.DOTALL)
    assert block, "the guide has no policy"
    return Policy(json.loads(block[1]))
