"""Keep logs as long as the trial, the experiment or the cluster says."""

from datetime import timedelta

from det_controlplane.db import logs
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, Missing
from det_controlplane.services.identity.principal import User
from det_controlplane.services.identity.rights import require_admin

FOREVER = -1
MAX_DAYS = 32767
AT_ONCE = 50_000  # lines a transaction


def set_of_experiment(ctx: Context, experiment_id: int, days: int) -> None:
    _check(days)
    with ctx.db.begin() as tx:
        if not logs.keep_of_experiment(tx, experiment_id, days):
            raise Missing(f"experiment {experiment_id} not found")


def set_of_trial(ctx: Context, trial_id: int, days: int) -> None:
    _check(days)
    with ctx.db.begin() as tx:
        if not logs.keep_of_trial(tx, trial_id, days):
            raise Missing(f"trial {trial_id} not found")


def days_left(ctx: Context, trial_id: int) -> int:
    """Return the days left; -1: kept forever, or not counting yet."""
    with ctx.db.begin() as tx:
        row = logs.retention(tx, trial_id)
    if row is None:
        raise Missing(f"trial {trial_id} not found")
    days = ctx.config.retention_policy.log_retention_days if row.days is None else row.days
    if days < 0 or row.ended_at is None:
        return FOREVER
    return max((row.ended_at + timedelta(days=days) - ctx.now()).days, 0)


def clean_up(ctx: Context, caller: User) -> int:
    """Delete at once, instead of at the next time; return how many lines went."""
    require_admin(caller, "clean up logs")
    return delete_old(ctx)


def delete_old(ctx: Context) -> int:
    """Delete in transactions of a bounded size: one that is cut short leaves less to the next."""
    default = ctx.config.retention_policy.log_retention_days
    removed = 0
    while True:
        with ctx.db.begin() as tx:
            gone = logs.delete_old(tx, default, ctx.now(), AT_ONCE)
        removed += gone
        if gone < AT_ONCE:
            return removed


def _check(days: int) -> None:
    if not FOREVER <= days <= MAX_DAYS:
        raise Invalid(f"numDays must be between -1 (forever) and {MAX_DAYS}, not {days}")
