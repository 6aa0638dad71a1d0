"""Sum usage and costs of days that have ended, a step in each tick until all of them are summed."""

from datetime import timedelta

from det_controlplane.db.money import closed_days
from det_controlplane.services.context import Context

# Agents report ends late, and a day that is summed after most of them is summed once.
_GRACE = timedelta(hours=1)


def close_some(ctx: Context) -> bool:
    """Announce, fence or sum some days; return whether more days can be summed at once.

    A transaction that is still open delays the sums to a later tick."""
    now = ctx.now()
    newest = (now - _GRACE).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=1)
    with ctx.db.autocommit() as tx:
        if not closed_days.is_due(tx, newest):
            return False
    with ctx.db.begin() as tx:
        closed_days.announce(tx, newest)
    with ctx.db.begin() as tx:
        return closed_days.sum_days(tx, now)
