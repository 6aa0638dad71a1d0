"""Service-linked roles as in IAM: AWS chooses their names, and `get_role` returns them some calls after the creation.

Left out: the errors of other services until a role works. Tests of `up` simulate these answers themselves."""

from typing import Any

import pytest
from moto.iam.exceptions import IAMException
from moto.iam.models import IAMBackend, Role

_NAMES = {
    "rds.amazonaws.com": "AWSServiceRoleForRDS",
    "spot.amazonaws.com": "AWSServiceRoleForEC2Spot",
    "vpcorigin.cloudfront.amazonaws.com": "AWSServiceRoleForCloudFrontVPCOrigin",
}


def roles_of_services(patch: pytest.MonkeyPatch, hidden_for_calls: int = 1) -> None:
    """Make moto answer for these roles as IAM does."""
    find, make = IAMBackend.get_role, IAMBackend.create_role
    hidden: dict[str, int] = {}

    def create(self: IAMBackend, service_name: str, description: str, suffix: str) -> Role:
        name = _NAMES[service_name]
        if any(role.name == name for role in self.roles.values()):
            raise IAMException(
                "InvalidInput",
                f"Service role name {name} has been taken in this account, please try a different suffix.",
            )
        hidden[name] = hidden_for_calls
        path = f"/aws-service-role/{service_name}/"
        return make(self, name, "{}", path, None, description, [], "3600", service_name)

    def get(self: IAMBackend, role_name: str) -> Any:
        if hidden.get(role_name, 0) > 0:
            hidden[role_name] -= 1
            return find(self, f"{role_name}-is-not-known-yet")
        return find(self, role_name)

    patch.setattr(IAMBackend, "create_service_linked_role", create)
    patch.setattr(IAMBackend, "get_role", get)
