"""Keep logs as long as the trial, the experiment or the cluster says."""

from datetime import timedelta

from det_controlplane.db.logs import log_retention
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, Missing
from det_controlplane.services.identity.rights import require_admin, require_owner
from det_controlplane.services.principal import User

FOREVER = -1
MAX_DAYS = 32767
AT_ONCE = 50_000  # lines a transaction


def set_of_experiment(ctx: Context, caller: User, experiment_id: int, days: int) -> None:
    """Change how long logs are kept. Users who may edit the experiment may keep logs longer; only the owner may
    shorten the time, which deletes logs."""
    _check(days)
    with ctx.db.begin() as tx:
        retention = log_retention.kept_of_experiment(tx, experiment_id)
        if retention is None:
            raise Missing(f"experiment {experiment_id} not found")
        _require_owner_to_shorten(
            ctx, caller, retention, days, f"keep the logs of experiment {experiment_id} shorter"
        )
        log_retention.keep_of_experiment(tx, experiment_id, days)


def set_of_trial(ctx: Context, caller: User, trial_id: int, days: int) -> None:
    _check(days)
    with ctx.db.begin() as tx:
        retention = log_retention.kept_of_trial(tx, trial_id)
        if retention is None:
            raise Missing(f"trial {trial_id} not found")
        _require_owner_to_shorten(
            ctx, caller, retention, days, f"keep the logs of trial {trial_id} shorter"
        )
        log_retention.keep_of_trial(tx, trial_id, days)


def _require_owner_to_shorten(
    ctx: Context, caller: User, retention: log_retention.LogRetention, days: int, what: str
) -> None:
    default = ctx.config.retention_policy.log_retention_days
    before = [default if d is None else d for d in retention.days]
    if any(_length(days) < _length(earlier) for earlier in before):
        require_owner(caller, retention.owner_id, what)


def _length(days: int) -> int:
    return MAX_DAYS + 1 if days == FOREVER else days


def days_left(ctx: Context, trial_id: int) -> int:
    """Return the days left; -1: kept forever, or not counting yet."""
    with ctx.db.begin() as tx:
        row = log_retention.retention(tx, trial_id)
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
            count = log_retention.delete_old(tx, default, ctx.now(), AT_ONCE)
        removed += count
        if count < AT_ONCE:
            return removed


def _check(days: int) -> None:
    if not FOREVER <= days <= MAX_DAYS:
        raise Invalid(f"numDays must be between -1 (forever) and {MAX_DAYS}, not {days}")
