"""Security groups as in EC2: rules that name another group keep their description, which moto hides.

Terraform plans a change of such a rule at each run otherwise."""

from typing import Any

import pytest
from moto.ec2.models.security_groups import SecurityGroupRule


def descriptions_of_rules(patch: pytest.MonkeyPatch) -> None:
    """Make moto show the description of every rule."""
    patch.setattr(SecurityGroupRule, "description", property(_description))


def _description(rule: Any) -> str | None:
    for place in (rule.ip_range, rule.source_group):
        if place and "Description" in place:
            return str(place["Description"])
    return None
