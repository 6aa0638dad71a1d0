"""Check the right to change things, as Determined's basic authorization does (docs/reference/compatibility.md#organization)."""

from det_controlplane.core.people.roles import OPEN, PRESIDING, Right
from det_controlplane.db.schema.enums import SessionKind
from det_controlplane.services.errors import Forbidden
from det_controlplane.services.principal import User


def require_admin(user: User, what: str, remedy: str = "") -> None:
    """Require an administrator in person: a task's token is its owner's for training, not for administration."""
    if not user.admin or user.allocation_id is not None:
        message = f"only an administrator may {what}; you are signed in as {user.username}"
        raise Forbidden(f"{message}: {remedy}" if remedy else message)


def refuse_tasks(user: User, what: str) -> None:
    """Allow every signed-in person, and no program of a task."""
    if user.allocation_id is not None:
        raise Forbidden(f"a task's token may not {what}: sign in")


def require_session(user: User, what: str) -> None:
    """Require a user who signed in, because the result must not outlive an access token."""
    refuse_tasks(user, what)
    if user.via != SessionKind.USER.value:
        raise Forbidden(
            f"an access token may not {what}: sign in, by 'det user login' or 'det auth login'"
        )


def require_sign_in(user: User, what: str) -> None:
    """Require a sign-in to manage users, because changes by an access token would outlive it. The cluster may allow
    tokens."""
    if not user.administers:
        raise Forbidden(
            f"an access token may not {what}: sign in, by 'det user login' or 'det auth login';"
            " an administrator may allow it by security.token.administers in the cluster's configuration"
        )


def require_right(user: User, right: Right, what: str) -> None:
    """Require a right in the whole cluster."""
    if right not in user.grants.everywhere:
        raise Forbidden(
            f"only an administrator may {what}, or whoever has {right.value}; you are signed in as {user.username}"
        )


def require_owner(user: User, owner_id: int, what: str) -> None:
    """Require the owner, an administrator of the cluster, or an administrator of the workspaces of the named
    objects."""
    if user.id != owner_id and not user.presides:
        require_admin(user, f"{what} of another user")


def require_submitter(user: User, owner_id: int, what: str) -> None:
    """Require the owner, or an administrator of the cluster, for code that runs with the owner's token and secrets."""
    if user.id != owner_id:
        require_admin(user, f"{what} of another user")


def require_removal(user: User, owner_id: int, source: int, target: int, what: str) -> None:
    """Require the owner or an administrator of the source for a move to another workspace, if the cluster has roles.

    Administrators of the target may delete its contents. A move must not give them objects of other users."""
    if source == target or user.grants is OPEN or user.id == owner_id:
        return
    if not user.grants.has(PRESIDING, source):
        raise Forbidden(
            f"only its owner, or an administrator of workspace {source}, may move {what} to another workspace;"
            f" you are signed in as {user.username}"
        )


def require_self(user: User, user_id: int, what: str) -> None:
    """Require the person, signed in, or an administrator."""
    if user.id != user_id or user.allocation_id is not None:
        require_admin(user, what)
