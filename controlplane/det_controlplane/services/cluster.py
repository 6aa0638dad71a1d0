"""The cluster as a whole: is it there, and what does its operator want to say."""

from typing import Any

from sqlalchemy import text

from det_controlplane.db.engine import DatabaseDown
from det_controlplane.db.views import time
from det_controlplane.services.context import Context

_PING = text("SELECT 1")
_MESSAGE = text(f"""
    SELECT json_build_object('message', message, 'startTime', {time("starts_at")}, 'endTime', {time("ends_at")},
                             'createdTime', {time("created_at")})
    FROM cluster_message WHERE starts_at <= :now AND (ends_at IS NULL OR ends_at > :now)
""")


def database_answers(ctx: Context) -> bool:
    try:
        with ctx.db.begin() as tx:
            tx.value(_PING)
    except DatabaseDown:
        return False
    return True


def message(ctx: Context) -> Any:
    with ctx.db.begin() as tx:
        return tx.value(_MESSAGE, {"now": ctx.now()})
