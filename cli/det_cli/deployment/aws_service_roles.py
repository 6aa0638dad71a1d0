"""AWS's own roles in the account. Services refuse the first resource of their kind until their role works."""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from det_cli.errors import CommandError
from det_cli.render import Say

# Changes in IAM reach the other services some seconds later, at times a minute.
SETTLE_S = 15.0
_PATIENCE_S = 180.0
# RDS says the first two, of a database and of its subnet group; CloudFront and EC2 the third.
_NOT_READY = re.compile(
    r"create service[- ]linked role|UsingWithRDS\.IAM\.ServiceLinkedRoles|assume (?:a|the) service[- ]linked role",
    re.IGNORECASE,
)
_TAKEN = "InvalidInput"  # IAM's answer for a role that is there
_DENIED = ("AccessDenied", "AccessDeniedException")


class Roles(Protocol):
    """List what is asked of the operator's account."""

    def client(self, service: str) -> Any: ...


@dataclass(frozen=True)
class ServiceRole:
    """A role that AWS makes on request, and that the service alone uses."""

    service: str
    name: str


RDS = ServiceRole("rds.amazonaws.com", "AWSServiceRoleForRDS")
SPOT = ServiceRole("spot.amazonaws.com", "AWSServiceRoleForEC2Spot")
VPC_ORIGINS = ServiceRole(
    "vpcorigin.cloudfront.amazonaws.com", "AWSServiceRoleForCloudFrontVPCOrigin"
)


def needed(*, rents_spot: bool, has_relay: bool) -> list[ServiceRole]:
    """Return the roles that a cluster needs. An instant fleet needs none."""
    return [RDS, *([SPOT] if rents_spot else []), *([VPC_ORIGINS] if has_relay else [])]


def create(aws: Roles, roles: Sequence[ServiceRole], say: Say) -> None:
    """Create the missing roles, and wait until IAM shows them. Raises CommandError without the right to."""
    unseen = [role for role in roles if _is_there(aws, role) is not True]
    created = [role for role in unseen if _create(aws, role, say)]
    if not created:
        return
    limit = time.monotonic() + _PATIENCE_S
    while any(_is_there(aws, role) is False for role in created) and time.monotonic() < limit:
        time.sleep(SETTLE_S / 5)
    time.sleep(SETTLE_S)


def _is_there(aws: Roles, role: ServiceRole) -> bool | None:
    """Return whether the account has a role; None if the caller may not look at it."""
    from botocore.exceptions import ClientError

    try:
        aws.client("iam").get_role(RoleName=role.name)
    except ClientError as e:
        return False if e.response.get("Error", {}).get("Code") == "NoSuchEntity" else None
    return True


def _create(aws: Roles, role: ServiceRole, say: Say) -> bool:
    """Create a role; return False if it is there."""
    from botocore.exceptions import ClientError

    try:
        aws.client("iam").create_service_linked_role(AWSServiceName=role.service)
    except ClientError as e:
        code = e.response.get("Error", {}).get("Code", "")
        if code == _TAKEN:
            return False
        if code in _DENIED:
            raise CommandError(
                f"the account has no role {role.name}, or you may not look at it, and you may not create it",
                "let an administrator of the account run"
                f" `aws iam create-service-linked-role --aws-service-name {role.service}`,"
                " then run the same command again",
            ) from e
        raise
    say(f"Created AWS's role {role.name}")
    return True


class Patience:
    """The time for which failures are excused by a role that does not work everywhere yet."""

    def __init__(self) -> None:
        self._limit = time.monotonic() + _PATIENCE_S

    def excuses(self, failure: CommandError) -> bool:
        """Wait and return True if the same call may succeed now."""
        if not _NOT_READY.search(failure.cause) or time.monotonic() > self._limit:
            return False
        time.sleep(SETTLE_S)
        return True
