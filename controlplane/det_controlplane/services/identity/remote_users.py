"""Accounts of people who sign in elsewhere: found by their identity, tied to it at the first sign-in, or made."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from det_controlplane.core.config.sign_in import SignInProvider
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.engine.errors import Violated
from det_controlplane.db.people import groups, sessions, users
from det_controlplane.db.people.users import RemoteAccount
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Forbidden, Taken
from det_controlplane.services.identity.sign_in import new_session

_LONGEST = 200


@dataclass(frozen=True, slots=True)
class IdentityClaims:
    """Hold the claims of a verified identity token about a person."""

    identity: str  # issuer and subject: stays when names and addresses change
    username: str
    display_name: str
    groups: tuple[str, ...] | None  # None: groups are kept here

    @classmethod
    def of(cls, claims: Mapping[str, Any], settings: SignInProvider) -> "IdentityClaims":
        """Read a user from claims. Refuse users of other domains and unverified addresses."""
        name = _username(claims, settings)
        value = claims.get(settings.groups_attribute_name) or ()
        group_names = [value] if isinstance(value, str) else value
        return cls(
            identity=f"{settings.issuer}#{claims['sub']}",
            username=name,
            display_name=str(claims.get(settings.display_name_attribute_name) or "")[:_LONGEST],
            groups=tuple(map(str, group_names)) if settings.groups_attribute_name else None,
        )


def sign_in(
    ctx: Context, person: IdentityClaims, settings: SignInProvider, expires_at: datetime
) -> tuple[str, int]:
    """Return a session of the person's account, and its id."""
    try:
        with ctx.db.begin() as tx:
            user = _account(tx, person, settings)
            if not user.active:
                raise Forbidden(f"user {user.username} is not active")
            if person.groups is not None:
                groups.set_memberships(tx, user.id, person.groups)
            now = ctx.now()
            sessions.signed_in(tx, user.id, now)
            return new_session(ctx, tx, user.id, expires_at), user.id
    except Violated as e:
        raise Taken(f"user {person.username} was just made by another sign-in: try again") from e


def _account(tx: Tx, person: IdentityClaims, settings: SignInProvider) -> RemoteAccount:
    by_identity = users.by_identity(tx, person.identity)
    if by_identity is not None:
        return by_identity
    account = users.remote(tx, person.username)
    if account is None:
        return _create_account(tx, person, settings)
    if not account.remote:
        raise Forbidden(
            f"user {person.username} signs in by password: an administrator lets it sign in at"
            f" {settings.provider} by 'det user edit {person.username} --remote true'"
        )
    if account.identity is not None:
        raise Forbidden(
            f"user {person.username} belongs to another account of {settings.provider}: an administrator"
            " renames the old user, or makes another one"
        )
    users.change(tx, account.id, identity=person.identity, password_hash=None)
    return account


def _create_account(tx: Tx, person: IdentityClaims, settings: SignInProvider) -> RemoteAccount:
    if not settings.auto_provision_users:
        raise Forbidden(
            f"there is no user {person.username}: an administrator makes it by"
            f" 'det user create {person.username} --remote'"
        )
    clash = users.named_like(tx, person.username, but=0)
    if clash is not None:
        raise Forbidden(f"user {person.username} cannot be made: {clash!r} has that name")
    display_name = person.display_name
    if display_name and users.named_like(tx, display_name, but=0) is not None:
        display_name = ""
    user_id = users.create(
        tx, username=person.username, display_name=display_name or None, remote=True, identity=person.identity
    )  # fmt: skip
    return RemoteAccount(
        user_id, person.username, active=True, remote=True, identity=person.identity
    )


def _username(claims: Mapping[str, Any], settings: SignInProvider) -> str:
    claim = settings.authentication_claim
    name = str(claims.get(claim) or "").strip()
    if not 2 <= len(name) <= _LONGEST or not name.isascii() or not name.isprintable():
        raise Forbidden(
            f"{settings.provider} tells no usable {claim!r} of you: ask its administrator for that claim,"
            " or the cluster's for another authentication_claim"
        )
    if claim != "email":
        return name
    name = name.lower()
    if claims.get("email_verified") not in (True, "true"):
        raise Forbidden(f"{settings.provider} has not verified the address {name}")
    if settings.domains and name.rpartition("@")[2] not in settings.domains:
        raise Forbidden(f"{name} is of none of the domains {', '.join(settings.domains)}")
    return name
