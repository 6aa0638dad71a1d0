"""Deleting what is past its retention: once a day at most, and only after something ran."""

from datetime import timedelta

from sqlalchemy import text

from det_controlplane.services.context import Context
from det_controlplane.services.logs import master_log, retention

INTERVAL = timedelta(days=1)

_CLAIM = text(
    "UPDATE cluster SET cleaned_at = :now WHERE cleaned_at IS NULL OR cleaned_at <= :before"
)

# Every container that is ordered gets a token of its own.
_FORGET_SESSIONS = text("DELETE FROM sessions WHERE kind = 'allocation' AND expires_at < :before")


def run_if_due(ctx: Context) -> bool:
    """Logs only grow with work, so the end of an experiment is when to look."""
    now = ctx.now()
    with ctx.db.begin() as tx:
        if not tx.execute(_CLAIM, {"now": now, "before": now - INTERVAL}).rowcount:
            return False
        tx.execute(_FORGET_SESSIONS, {"before": now - INTERVAL})
    retention.delete_old(ctx)
    master_log.forget_old(ctx)
    return True
