"""Deadlines that the provisioner does not decide about: of paused experiments, and in pools that rent no machines."""

from datetime import datetime, timedelta

from det_controlplane.core.provision.deadlines import LOOK_S, watched
from det_controlplane.db.machines import deadlines, provision
from det_controlplane.services.context import Context
from det_controlplane.services.machines.places import rented_pools
from det_controlplane.services.use_case import change
from det_controlplane.services.webhooks import events

_INTERVAL = timedelta(seconds=LOOK_S)


def look_if_due(ctx: Context) -> datetime | None:
    """Store the outlook of these experiments if it is due. Return the time at which it is due again.

    A paused experiment has no cost, so it is never the reason for a tick."""
    rented, now = [pool.pool_name for pool in rented_pools(ctx)], ctx.now()
    with ctx.db.autocommit() as tx:
        due = deadlines.next_watches(tx, rented, now, _INTERVAL)
    if any(at <= now for at in due.values()):
        _look(ctx, rented)
    if False not in due:
        return None
    return due[False] if due[False] > now else now + _INTERVAL


def _look(ctx: Context, rented: list[str]) -> None:
    """Store the outlook of each watched experiment, and report bad news."""
    with change(ctx) as changed:
        tx, now = changed.tx, changed.now
        # Two ticks, or a tick and a decision about machines, would send the same message twice.
        provision.lock(tx)
        jobs = deadlines.watched_jobs(tx, rented, now, _INTERVAL)
        decisions = [watched(job, now.timestamp()) for job in jobs]
        deadlines.store(tx, decisions, now)
        events.report_deadlines(changed, decisions)
