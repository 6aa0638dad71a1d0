"""The cluster as a whole: is it there, and what does its operator want to say."""

from typing import Any

from sqlalchemy import text

from det_controlplane.db.engine import Database
from det_controlplane.db.views import time
from det_controlplane.services.context import Context
from det_controlplane.services.identity import client_hash, stored_hash

_PING = text("SELECT 1")
_ID = text("SELECT cluster_id FROM cluster")
_MESSAGE = text(f"""
    SELECT json_build_object('message', message, 'startTime', {time("starts_at")}, 'endTime', {time("ends_at")},
                             'createdTime', {time("created_at")})
    FROM cluster_message WHERE starts_at <= :now AND (ends_at IS NULL OR ends_at > :now)
""")
_SET_PASSWORDS = text("""
    UPDATE users SET password_hash = :hash WHERE id IN (1, 2) AND password_hash IS NULL AND NOT remote
""")


def ping(ctx: Context) -> None:
    with ctx.db.begin() as tx:
        tx.value(_PING)


def cluster_id(db: Database) -> str:
    with db.begin() as tx:
        return str(tx.value(_ID))


def message(ctx: Context) -> Any:
    with ctx.db.begin() as tx:
        return tx.value(_MESSAGE, {"now": ctx.now()})


def set_initial_passwords(db: Database, password: str) -> bool:
    """Give the built-in users their password; False when they have one already."""
    with db.begin() as tx:
        return tx.run(_SET_PASSWORDS, {"hash": stored_hash(client_hash(password))}) > 0
