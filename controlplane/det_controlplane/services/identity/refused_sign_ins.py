"""Record failed sign-ins in the audit log: the attempt that begins a delay, and a bounded number for each stranger."""

from datetime import timedelta

from det_controlplane.db.cluster import audit
from det_controlplane.services.context import Context

ACTION = "auth.refused"
# Rows stay for a month at least: strangers must not fill the disk with them.
MOST = 100
_WITHIN = timedelta(hours=1)


def record(ctx: Context, username: str, address: str, attempts: int) -> None:
    """Record the number of failed attempts at a name. The user may not exist."""
    now = ctx.now()
    with ctx.db.begin() as tx:
        audit.add_refusal(
            tx, since=now - _WITHIN, most=MOST, at=now, username=username, address=address, action=ACTION,
            attempts=attempts,
        )  # fmt: skip
