"""Tokens that agents join with."""

from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, func, insert, literal, or_, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from det_controlplane.db.engine.database import Tx
from det_controlplane.db.engine.views import moment, shown
from det_controlplane.db.schema import join_tokens, users

_t = join_tokens.c
_SHOWN = select(
    shown(
        _t.id, _t.description, _t.uses, users.c.username, maxUses=_t.max_uses, createdAt=moment(_t.created_at),
        expiresAt=moment(_t.expires_at), revokedAt=moment(_t.revoked_at), lastUsedAt=moment(_t.last_used_at),
    )
).select_from(join_tokens.join(users))  # fmt: skip
_KNOWN = select(_t.id).where(_t.token_hash == bindparam("hash"), _t.revoked_at.is_(None))
_USE = (
    update(join_tokens)
    .where(
        _t.id == bindparam("token"),
        _t.revoked_at.is_(None),
        or_(_t.expires_at.is_(None), _t.expires_at > bindparam("time")),
        or_(_t.max_uses.is_(None), _t.uses < _t.max_uses),
    )
    .values(uses=_t.uses + 1, last_used_at=bindparam("time"))
)


def create(tx: Tx, **columns: Any) -> dict[str, Any]:
    token_id = tx.execute(insert(join_tokens).values(columns).returning(_t.id)).scalar_one()
    token: dict[str, Any] = tx.execute(_SHOWN.where(_t.id == token_id)).scalar_one()
    return token


def add_of_deployment(tx: Tx, token_hash: bytes, now: datetime) -> None:
    """Add the token that the deployment was started with, unless it is there; it has no end."""
    first = select(users.c.id).order_by(users.c.admin.desc(), users.c.id).limit(1)
    of_deployment = select(
        literal(token_hash), literal("the deployment's own (DET_BOOTSTRAP_TOKEN)"), first.scalar_subquery(), literal(now)
    )  # fmt: skip
    columns = ["token_hash", "description", "user_id", "created_at"]
    new = upsert(join_tokens).from_select(columns, of_deployment)
    tx.execute(new.on_conflict_do_nothing(index_elements=[_t.token_hash]))


def listed(tx: Tx) -> list[dict[str, Any]]:
    return list(tx.execute(_SHOWN.order_by(_t.id)).scalars())


def revoke(tx: Tx, token_id: int, now: datetime) -> bool:
    statement = update(join_tokens).where(_t.id == token_id)
    statement = statement.values(revoked_at=func.coalesce(_t.revoked_at, now))
    return tx.execute(statement).rowcount > 0


def known(tx: Tx, token_hash: bytes) -> int | None:
    """Return the number of a token that is not revoked."""
    return tx.execute(_KNOWN, {"hash": token_hash}).scalar()


def use(tx: Tx, token_id: int, now: datetime) -> bool:
    """Count an agent that joins; False when the token has ended or was used up."""
    return tx.execute(_USE, {"token": token_id, "time": now}).rowcount > 0
