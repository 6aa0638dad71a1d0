"""Bearer tokens: of users, of tasks that act for them, and of agents."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Select,
    bindparam,
    delete,
    func,
    literal_column,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import insert

from det_controlplane.core.lifecycle.agent import AgentState
from det_controlplane.core.paging import Page, Sort
from det_controlplane.db.engine import pages
from det_controlplane.db.engine.database import Database, Tx
from det_controlplane.db.engine.pages import Collection, one_of
from det_controlplane.db.engine.views import moment, shown
from det_controlplane.db.people import ownership, roles
from det_controlplane.db.scheduling.resource_pools import REVISION
from det_controlplane.db.schema import agents, allocations, containers, sessions, tasks, users
from det_controlplane.db.schema.enums import SessionKind

_s = sessions.c
_ANY_HOLDER = (
    select(
        sessions.c.id, sessions.c.allocation_id, users.c.id.label("user_id"), users.c.username, users.c.admin,
        tasks.c.id.label("task_id"), tasks.c.trial_id, tasks.c.experiment_id, sessions.c.kind,
        or_(sessions.c.narrow, ~users.c.active).label("narrow"), sessions.c.waits_for_agent,
        users.c.writes, REVISION.label("pools"),
    )
    .join_from(sessions, users)
    .outerjoin(allocations, allocations.c.id == sessions.c.allocation_id)
    .outerjoin(tasks, tasks.c.id == allocations.c.task_id)
    .where(
        sessions.c.revoked_at.is_(None),
        or_(sessions.c.expires_at.is_(None), sessions.c.expires_at > bindparam("now")),
        # Work of a deactivated user continues to report, but does not act for its owner.
        or_(users.c.active, sessions.c.kind == SessionKind.ALLOCATION),
    )
)  # fmt: skip
_ROLES = roles.held_by(_s.user_id).label("roles")
_HOLDERS = _ANY_HOLDER.add_columns(_s.token_hash).where(one_of(_s.token_hash, "token_hashes"))
_HOLDERS_WITH_ROLES = _HOLDERS.add_columns(_ROLES)
_HOLDER_WITH_ROLES = _ANY_HOLDER.add_columns(_ROLES).where(_s.token_hash == bindparam("token_hash"))
_AGENT = select(agents.c.id, agents.c.incarnation, agents.c.pool, REVISION.label("pools")).where(
    agents.c.token_hash == bindparam("token_hash"), agents.c.state != AgentState.LOST
)
# Only the requested agents. The ids are one text, because PostgreSQL parses an array letter by letter.
_RUNNERS = (
    select(func.string_agg(func.encode(agents.c.token_hash, "hex"), " "))
    .join_from(containers, agents, agents.c.id == containers.c.agent_id)
    .where(
        containers.c.allocation_id == _s.allocation_id,
        one_of(agents.c.token_hash, "agent_hashes"),
        agents.c.state != AgentState.LOST,
    )
    .scalar_subquery()
    .label("runners")
)
_RUN_BY, _RUN_BY_WITH_ROLES = (s.add_columns(_RUNNERS) for s in (_HOLDERS, _HOLDERS_WITH_ROLES))
_IS_REVOKED = _s.revoked_at.is_not(None)
_ACCESS_TOKENS = Collection(
    "tokenInfo",
    select(
        shown(
            _s.id, _s.user_id, createdAt=moment(_s.created_at), expiry=moment(_s.expires_at), revoked=_IS_REVOKED,
            description=func.coalesce(_s.description, ""), tokenType=literal_column("'TOKEN_TYPE_ACCESS_TOKEN'"),
        )
    ).select_from(sessions.join(users)).where(_s.kind == SessionKind.ACCESS),
    orders={
        "SORT_BY_ID": _s.id, "SORT_BY_USER_ID": _s.user_id, "SORT_BY_EXPIRY": _s.expires_at,
        "SORT_BY_CREATED_AT": _s.created_at, "SORT_BY_REVOKED": _IS_REVOKED, "SORT_BY_DESCRIPTION": _s.description,
        "SORT_BY_TOKEN_TYPE": _s.kind,
    },
    filters={
        "user_id": _s.user_id == bindparam("user_id"),
        "username": users.c.username == bindparam("username"),
        "ids": one_of(_s.id, "ids"),
        "alive_at": ~_IS_REVOKED & or_(_s.expires_at.is_(None), _s.expires_at > bindparam("alive_at")),
    },
)  # fmt: skip


_CREATE_ONCE = insert(sessions).on_conflict_do_nothing(index_elements=["token_hash"])


@dataclass(frozen=True, slots=True)
class Holder:
    """The user that a token acts for, and the allocation if a task holds it."""

    id: int
    allocation_id: str | None
    user_id: int
    username: str
    admin: bool
    task_id: str | None
    trial_id: int | None
    experiment_id: int | None
    narrow: bool
    kind: SessionKind
    writes: int = 0
    pools: int = 0  # the count of changes of pools in the database
    waits_for_agent: str | None = None  # the lost agent of its task, which has to join again first
    roles: list[tuple[str, int]] | None = None  # with their workspaces
    workspace_id: int | None = None  # of the object in the request
    runners: list[str] | None = (
        None  # hashes of the tokens of agents that run the allocation, in hexadecimal
    )


@dataclass(frozen=True, slots=True)
class AgentHolder:
    id: str
    incarnation: str
    pool: str
    pools: int


@dataclass(frozen=True, slots=True)
class SignIn:
    """Hold the stored hash of a user and the flags that decide a sign-in."""

    user_id: int
    password_hash: str | None
    active: bool
    remote: bool  # signs in elsewhere, and by no password


@dataclass(frozen=True, slots=True)
class Origin:
    """The address of a sign-in, and the program that sent it."""

    address: str = ""
    program: str = ""


NOWHERE = Origin()


@dataclass(frozen=True, slots=True)
class AccessToken:
    user_id: int
    revoked: bool
    shown: dict[str, Any]


@cache
def _holder_and_workspace(kind: str) -> Select[Any]:
    return _HOLDER_WITH_ROLES.add_columns(
        ownership.workspace_expression(kind).label("workspace_id")
    )


def holders(db: Database, token_hashes: Sequence[bytes], now: datetime) -> dict[bytes, Holder]:
    """Return the holders of those tokens that are good, by the hashes of the tokens."""
    return _held_by_hash(db, _HOLDERS, {"token_hashes": list(token_hashes), "now": now})


def holders_with_roles(
    db: Database, token_hashes: Sequence[bytes], now: datetime
) -> dict[bytes, Holder]:
    return _held_by_hash(db, _HOLDERS_WITH_ROLES, {"token_hashes": list(token_hashes), "now": now})


def holders_on_agents(
    db: Database,
    token_hashes: Sequence[bytes],
    agent_hashes: Sequence[bytes],
    now: datetime,
    *,
    with_roles: bool,
) -> dict[bytes, Holder]:
    """Return holders, and which of some agents run them."""
    statement = _RUN_BY_WITH_ROLES if with_roles else _RUN_BY
    params = {"token_hashes": list(token_hashes), "agent_hashes": list(agent_hashes), "now": now}
    return _held_by_hash(db, statement, params)


def _held_by_hash(
    db: Database, statement: Select[Any], params: dict[str, Any]
) -> dict[bytes, Holder]:
    holder_by_hash: dict[bytes, Holder] = {}
    for row in db.read(statement, params):
        values = dict(row._mapping)
        token_hash = values.pop("token_hash")
        holder_by_hash[token_hash] = Holder(**values)
    return holder_by_hash


def holder_with_roles(
    db: Database, token_hash: bytes, now: datetime, named: tuple[str, str] | None
) -> Holder | None:
    """Return the holder of a token with roles, and the workspace of the object that `named` identifies."""
    params: dict[str, Any] = {"token_hash": token_hash, "now": now}
    if named is None:
        return _read_holder(db, _HOLDER_WITH_ROLES, params)
    kind, name = named
    return _read_holder(db, _holder_and_workspace(kind), {**params, "names": [name]})


def _read_holder(db: Database, statement: Select[Any], params: dict[str, Any]) -> Holder | None:
    for row in db.read(statement, params):
        return Holder(**row._mapping)
    return None


def agent_holder(db: Database, token_hash: bytes) -> AgentHolder | None:
    for row in db.read(_AGENT, {"token_hash": token_hash}):
        return AgentHolder(row.id, str(row.incarnation), row.pool, row.pools)
    return None


def create(
    tx: Tx,
    kind: SessionKind,
    user_id: int,
    token_hash: bytes,
    now: datetime,
    expires_at: datetime | None,
    description: str | None = None,
    origin: Origin = NOWHERE,
) -> int:
    values = {
        "kind": kind, "user_id": user_id, "token_hash": token_hash, "created_at": now, "expires_at": expires_at,
        "description": description, "address": origin.address or None, "program": origin.program or None,
    }  # fmt: skip
    return int(tx.execute(insert(sessions).values(values).returning(sessions.c.id)).scalar_one())


def create_for_task(
    tx: Tx,
    user_id: int,
    allocation_id: str,
    token_hash: bytes,
    now: datetime,
    expires_at: datetime | None,
    *,
    narrow: bool,
) -> None:
    """Let a container of the allocation act for its user. The same token may have been given before."""
    values = {
        "kind": SessionKind.ALLOCATION, "user_id": user_id, "allocation_id": allocation_id,
        "token_hash": token_hash, "created_at": now, "expires_at": expires_at, "narrow": narrow,
    }  # fmt: skip
    tx.execute(_CREATE_ONCE, values)


def keep_for_late_reports(
    tx: Tx, token_hash: bytes, until: datetime, waits_for_agent: str | None
) -> None:
    """Keep the token of a lost container valid until then. The API refuses it while `waits_for_agent` is set."""
    values = {"expires_at": until, "waits_for_agent": waits_for_agent}
    own = (_s.token_hash == token_hash) & _s.revoked_at.is_(None)
    tx.execute(update(sessions).where(own).values(values))


def release_waiting(tx: Tx, agent_id: str, until: datetime) -> None:
    """Accept tokens again that waited for an agent, until then."""
    waiting = _s.waits_for_agent == agent_id
    tx.execute(update(sessions).where(waiting).values(waits_for_agent=None, expires_at=until))


def renew_for_task(tx: Tx, allocation_id: str) -> None:
    """Remove the expiry from the tokens of an allocation that continues."""
    own = (_s.allocation_id == allocation_id) & _s.revoked_at.is_(None)
    tx.execute(update(sessions).where(own).values(waits_for_agent=None, expires_at=None))


def delete_of_allocations(tx: Tx, allocation_ids: Sequence[str]) -> None:
    tx.execute(
        delete(sessions).where(one_of(_s.allocation_id, "ids")), {"ids": list(allocation_ids)}
    )


def open_of_user(tx: Tx, user_id: int, now: datetime, most: int) -> list[dict[str, Any]]:
    """Return the newest sessions in which a user is signed in."""
    rows = shown(
        _s.id, createdAt=moment(_s.created_at), expiresAt=moment(_s.expires_at),
        address=func.coalesce(_s.address, ""), program=func.coalesce(_s.program, ""),
    )  # fmt: skip
    query = select(rows).where(*_open(user_id, now)).order_by(_s.id.desc()).limit(most)
    return list(tx.execute(query).scalars())


def end_of_user(tx: Tx, user_id: int, session_id: int, now: datetime) -> bool:
    """End a session in which a user is signed in; return whether there was one."""
    own = (*_open(user_id, now), _s.id == session_id)
    return tx.execute(update(sessions).where(*own).values(revoked_at=now)).rowcount == 1


def end_others_of_user(tx: Tx, user_id: int, keep: int, now: datetime) -> int:
    """End all sessions in which a user is signed in but one; return how many that were."""
    others = (*_open(user_id, now), _s.id != keep)
    return tx.execute(update(sessions).where(*others).values(revoked_at=now)).rowcount


def _open(user_id: int, now: datetime) -> tuple[ColumnElement[bool], ...]:
    return (
        _s.user_id == user_id,
        _s.kind == SessionKind.USER,
        _s.revoked_at.is_(None),
        or_(_s.expires_at.is_(None), _s.expires_at > now),
    )


def revoke(tx: Tx, session_id: int, now: datetime) -> None:
    unrevoked = (sessions.c.id == session_id) & sessions.c.revoked_at.is_(None)
    tx.execute(update(sessions).where(unrevoked).values(revoked_at=now))


def describe(tx: Tx, session_id: int, description: str) -> None:
    tx.execute(update(sessions).where(sessions.c.id == session_id).values(description=description))


def forget_expired(tx: Tx, before: datetime) -> None:
    """Delete expired tokens of tasks. Each ordered container gets its own token."""
    condition = (sessions.c.kind == SessionKind.ALLOCATION) & (sessions.c.expires_at < before)
    tx.execute(delete(sessions).where(condition))


def sign_in(tx: Tx, username: str) -> SignIn | None:
    columns = (users.c.id, users.c.password_hash, users.c.active, users.c.remote)
    row = tx.execute(select(*columns).where(users.c.username == username)).first()
    return None if row is None else SignIn(*row)


def is_active_user(tx: Tx, user_id: int) -> bool | None:
    """Return None for a user that does not exist."""
    return tx.execute(select(users.c.active).where(users.c.id == user_id)).scalar()


def signed_in(tx: Tx, user_id: int, now: datetime) -> None:
    tx.execute(update(users).where(users.c.id == user_id).values(last_auth_at=now))


def access_token(tx: Tx, token_id: int) -> AccessToken | None:
    query = _ACCESS_TOKENS.rows.where(_s.id == token_id)
    row = tx.execute(query.add_columns(_s.user_id, _IS_REVOKED)).first()
    return None if row is None else AccessToken(row[1], row[2], row[0])


def access_tokens(db: Database, page: Page, sort: Sort, filters: dict[str, Any]) -> Iterator[str]:
    return pages.find(db, _ACCESS_TOKENS, page, sort, filters)
