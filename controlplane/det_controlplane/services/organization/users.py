"""People with accounts."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from det_controlplane.core.paging import Page, Sort
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.engine.errors import Violated
from det_controlplane.db.people import users
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Forbidden, Invalid, Missing, Taken, require
from det_controlplane.services.identity.passwords import client_hash, stored_hash
from det_controlplane.services.identity.rights import (
    require_admin,
    require_self,
    require_session,
    require_sign_in,
)
from det_controlplane.services.identity.sign_in import require_password
from det_controlplane.services.principal import User

_COLUMNS = ("username", "display_name", "admin", "active", "remote")
SHORTEST_PASSWORD = 8
_AGENT_USER = ("agentUid", "agentUser", "agentGid", "agentGroup")


@dataclass(frozen=True, slots=True)
class Password:
    """A password as it was sent: clients of Determined hash it first."""

    value: str
    is_hashed: bool

    @property
    def hashed(self) -> str:
        """Return the password as clients of Determined hash it."""
        return self.value if self.is_hashed else client_hash(self.value)

    def stored(self, *, public: bool) -> str | None:
        """Return the stored form; on a cluster that others reach, a password must not be found by trying a few."""
        hashed = self.hashed
        if not public:
            return stored_hash(hashed)
        if not hashed:
            return None  # sign-in is impossible without a password
        if hashed in _one_letter_hashes() or (
            not self.is_hashed and len(self.value) < SHORTEST_PASSWORD
        ):
            raise Invalid(
                f"the password is too short: give at least {SHORTEST_PASSWORD} characters"
            )
        return stored_hash(hashed)


@cache
def _one_letter_hashes() -> frozenset[str]:
    """Return the hashes of passwords with one character. A hash does not show the length of its password."""
    return frozenset(client_hash(chr(code)) for code in range(32, 127))


@dataclass(frozen=True, slots=True)
class UserChanges:
    """Hold the fields to change; None keeps a field."""

    username: str | None = None
    display_name: str | None = None
    password: Password | None = None
    admin: bool | None = None
    active: bool | None = None
    remote: bool | None = None
    agent_user: dict[str, Any] | None = None
    end_tokens: bool = False  # end access tokens and restrict the tokens of running tasks
    current_password: Password | None = None  # checked before the caller's own password changes


def get(ctx: Context, user_id: int) -> dict[str, Any]:
    with ctx.db.autocommit() as tx:
        return _read_user(tx, user_id)


def by_name(ctx: Context, username: str) -> dict[str, Any]:
    with ctx.db.autocommit() as tx:
        return require(users.by_name(tx, username), f"user '{username}'")


def listed(ctx: Context, page: Page, sort: Sort, filters: dict[str, Any]) -> Iterator[str]:
    return users.listed(ctx.db, page, sort, filters)


def create(ctx: Context, caller: User, new: UserChanges) -> dict[str, Any]:
    require_admin(caller, "create users")
    username = _checked_name(new.username or "", was="")
    if new.remote and new.password is not None and new.password.value:
        raise Invalid(
            f"user {username!r} is remote: it signs in with an identity provider and has no password"
        )
    password = new.password or Password("", is_hashed=True)
    values = {
        "username": username, "password_hash": None if new.remote else password.stored(public=ctx.host.public),
        "display_name": new.display_name or None, "admin": bool(new.admin),
        "active": new.active is not False, "remote": bool(new.remote),
        "agent_user": _checked_agent_user(new.agent_user) if new.agent_user else None,
    }  # fmt: skip
    try:
        with ctx.db.begin() as tx:
            _refuse_clash(tx, 0, username)
            if new.display_name:
                _refuse_clash(tx, 0, new.display_name)
            user_id = users.create(tx, **values)
            ctx.recorder.add_objects(f"user {user_id}")
            _record_password(ctx, new)
            return _read_user(tx, user_id)
    except Violated as e:
        raise Taken(f"user '{username}' already exists: choose another name") from e


def edit(ctx: Context, caller: User, user_id: int, changes: UserChanges) -> dict[str, Any]:
    _check_rights(caller, user_id, changes)
    if caller.id == user_id and changes.password is not None and changes.current_password:
        require_password(ctx, caller, changes.current_password.hashed)
    with ctx.db.begin() as tx:
        present = _read_user(tx, user_id)
        _record_password(ctx, changes)
        _check_changes(tx, present, changes)
        becomes_remote = bool(changes.remote) and not present["remote"]
        users.change(tx, user_id, **_columns(changes, ctx.host.public), modified_at=ctx.now())
        keep = caller.session_id if caller.id == user_id else 0
        if changes.active is False or changes.end_tokens:
            users.end_tokens(tx, user_id, ctx.now(), keep=keep)
        elif changes.password is not None:
            # Somebody who knew the old password may have made access tokens with it.
            users.end_sign_ins(tx, user_id, ctx.now(), keep=keep)
        elif becomes_remote:
            users.sign_out(tx, user_id, ctx.now(), keep=keep)
        return _read_user(tx, user_id)


def set_active(
    ctx: Context, caller: User, user_ids: list[int], active: bool
) -> list[dict[str, Any]]:
    """Set each user on its own: one that fails says why."""
    ctx.recorder.add_objects(*(f"user {user_id}" for user_id in user_ids))
    ctx.recorder.add_details(userIds=list(user_ids))
    results = []
    for user_id in user_ids:
        try:
            edit(ctx, caller, user_id, UserChanges(active=active))
            results.append({"id": user_id, "error": ""})
        except (Missing, Invalid) as e:
            results.append({"id": user_id, "error": str(e)})
    return results


def _record_password(ctx: Context, changes: UserChanges) -> None:
    """Record a new password in the audit log, beside other changes of the request."""
    if changes.password is not None:
        ctx.recorder.add_details(password="new")


def _columns(changes: UserChanges, public: bool) -> dict[str, Any]:
    columns: dict[str, Any] = {column: getattr(changes, column) for column in _COLUMNS}
    if changes.username is not None:
        columns["username"] = changes.username.strip()
    if changes.agent_user is not None:
        columns["agent_user"] = _checked_agent_user(changes.agent_user)
    if changes.password is not None:
        columns["password_hash"] = changes.password.stored(public=public)
    values = {column: value for column, value in columns.items() if value is not None}
    return {**values, "password_hash": None} if changes.remote else values


def _read_user(tx: Tx, user_id: int) -> dict[str, Any]:
    return require(users.one(tx, user_id), f"user {user_id}")


def _check_rights(caller: User, user_id: int, changes: UserChanges) -> None:
    whom = f"user {caller.username}" if caller.id == user_id else "another user"
    require_self(caller, user_id, f"edit {whom}")
    if caller.id == user_id:
        if changes.password is not None:
            require_session(caller, "change its user's password")
        # Changes that would keep the user from signing in to revoke the token, or that change the user's rights.
        fields = (
            changes.username, changes.active, changes.remote, changes.end_tokens or None,
            changes.admin, changes.agent_user,
        )  # fmt: skip
        if any(change is not None for change in fields):
            require_session(caller, "rename its user, sign it out, or change its rights")
    else:
        require_sign_in(caller, "change accounts of others")
    administrative = (changes.admin, changes.active, changes.remote, changes.agent_user)
    if any(change is not None for change in administrative):
        require_admin(caller, "change a user's rights, activity, remote flag or agent user")


def _check_changes(tx: Tx, present: dict[str, Any], changes: UserChanges) -> None:
    user_id, username = int(present["id"]), present["username"]
    if changes.username is not None:
        _refuse_clash(tx, user_id, _checked_name(changes.username, was=username))
    if changes.display_name:
        _refuse_clash(tx, user_id, changes.display_name)
    remote = present["remote"] if changes.remote is None else changes.remote
    if changes.password is not None and remote:
        raise Invalid(
            f"user '{username}' is remote: it signs in with an identity provider and has no password"
        )
    demoted = changes.admin is False or changes.active is False
    if demoted and present["admin"] and not users.other_admins(tx, user_id):
        raise Invalid(f"user '{username}' is the last active administrator: make another one first")


def _checked_name(name: str, was: str) -> str:
    trimmed = name.strip()
    if len(trimmed) < 2 or not trimmed.isascii() or not trimmed.isprintable():
        raise Invalid(
            f"username {name!r} must have at least 2 characters, all of them printable ASCII"
        )
    if trimmed in ("admin", "determined") and trimmed != was:
        raise Forbidden(f"username '{trimmed}' is reserved for the built-in account")
    return trimmed


def _refuse_clash(tx: Tx, user_id: int, name: str) -> None:
    other = users.named_like(tx, name.strip(), but=user_id)
    if other is not None:
        raise Taken(f"'{name.strip()}' is already the name of user '{other}': choose another")


def _checked_agent_user(agent_user: dict[str, Any]) -> dict[str, Any]:
    missing = [name for name in _AGENT_USER if agent_user.get(name) is None]
    if missing:
        raise Invalid(f"agentUserGroup lacks {', '.join(missing)}: give all four")
    return {name: agent_user[name] for name in _AGENT_USER}
