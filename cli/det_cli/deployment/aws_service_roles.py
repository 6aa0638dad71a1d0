"""Service-linked roles of the account. A service cannot create its first resource until its role is ready."""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from det_cli.errors import CommandError
from det_cli.render import Say

# Other services see IAM changes after some seconds, sometimes after a minute.
SETTLE_S = 15.0
_PATIENCE_S = 180.0
# The first two messages come from RDS, for a database and its subnet group. The third comes from CloudFront and EC2.
_NOT_READY = re.compile(
    r"create service[- ]linked role|UsingWithRDS\.IAM\.ServiceLinkedRoles|assume (?:a|the) service[- ]linked role",
    re.IGNORECASE,
)
_TAKEN = "InvalidInput"  # IAM's answer if the role exists
_DENIED = ("AccessDenied", "AccessDeniedException")


class Roles(Protocol):
    """The account calls that this module needs."""

    def client(self, service: str) -> Any: ...


@dataclass(frozen=True)
class ServiceRole:
    """A role that AWS creates on request and that only one service can use."""

    service: str
    name: str


RDS = ServiceRole("rds.amazonaws.com", "AWSServiceRoleForRDS")
SPOT = ServiceRole("spot.amazonaws.com", "AWSServiceRoleForEC2Spot")
VPC_ORIGINS = ServiceRole(
    "vpcorigin.cloudfront.amazonaws.com", "AWSServiceRoleForCloudFrontVPCOrigin"
)


def needed(*, rents_spot: bool, has_relay: bool) -> list[ServiceRole]:
    """Return the roles that a cluster needs. EC2 fleets of type instant need no role."""
    return [RDS, *([SPOT] if rents_spot else []), *([VPC_ORIGINS] if has_relay else [])]


def create(aws: Roles, roles: Sequence[ServiceRole], say: Say) -> None:
    """Create missing roles and wait until IAM returns them. Raises CommandError without the permission."""
    missing = [role for role in roles if _exists(aws, role) is not True]
    created = [role for role in missing if _create(aws, role, say)]
    if not created:
        return
    limit = time.monotonic() + _PATIENCE_S
    while any(_exists(aws, role) is False for role in created) and time.monotonic() < limit:
        time.sleep(SETTLE_S / 5)
    time.sleep(SETTLE_S)


def _exists(aws: Roles, role: ServiceRole) -> bool | None:
    """Return True if the account has the role, or None if the caller may not read it."""
    from botocore.exceptions import ClientError

    try:
        aws.client("iam").get_role(RoleName=role.name)
    except ClientError as e:
        return False if e.response.get("Error", {}).get("Code") == "NoSuchEntity" else None
    return True


def _create(aws: Roles, role: ServiceRole, say: Say) -> bool:
    """Create a role. Return False if it already exists."""
    from botocore.exceptions import ClientError

    try:
        aws.client("iam").create_service_linked_role(AWSServiceName=role.service)
    except ClientError as e:
        code = e.response.get("Error", {}).get("Code", "")
        if code == _TAKEN:
            return False
        if code in _DENIED:
            raise CommandError(
                f"the role {role.name} is missing or you may not read it, and you may not create it",
                "ask an account administrator to run"
                f" `aws iam create-service-linked-role --aws-service-name {role.service}`,"
                " then run the same command again",
            ) from e
        raise
    say(f"Created AWS's role {role.name}")
    return True


class RoleRetry:
    """Limits the retries while a new role is not ready in all services."""

    def __init__(self) -> None:
        self._limit = time.monotonic() + _PATIENCE_S

    def waits_after(self, failure: CommandError) -> bool:
        """Wait and return True if the role is not ready. Return False for other failures and after the limit."""
        if not _NOT_READY.search(failure.cause) or time.monotonic() > self._limit:
            return False
        time.sleep(SETTLE_S)
        return True
