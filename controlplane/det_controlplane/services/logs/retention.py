"""How long logs are kept: the cluster's rule, an experiment's, a trial's (facts §9.13)."""

from datetime import timedelta

from sqlalchemy import text

from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, Missing
from det_controlplane.services.identity.principal import User
from det_controlplane.services.identity.rights import require_admin

FOREVER = -1
MAX_DAYS = 32767
AT_ONCE = 50_000  # lines a transaction

_OF_EXPERIMENT = text("UPDATE experiments SET log_retention_days = :days WHERE id = :id")
_OF_ITS_TRIALS = text("UPDATE trials SET log_retention_days = :days WHERE experiment_id = :id")
_OF_TRIAL = text("UPDATE trials SET log_retention_days = :days WHERE id = :id")
_LEFT = text("""
    SELECT t.ended_at, coalesce(t.log_retention_days, e.log_retention_days) AS days
    FROM trials t JOIN experiments e ON e.id = t.experiment_id WHERE t.id = :id
""")
# Only ended tasks: nothing that still writes loses lines.
_CLEAN = text("""
    DELETE FROM task_logs WHERE ctid = ANY(ARRAY(
        SELECT l.ctid FROM task_logs l JOIN tasks k ON k.id = l.task_id LEFT JOIN trials t ON t.id = k.trial_id
            LEFT JOIN experiments e ON e.id = k.experiment_id
        WHERE k.ended_at IS NOT NULL
          AND coalesce(t.log_retention_days, e.log_retention_days, :days) >= 0
          AND k.ended_at < cast(:now AS timestamptz)
              - make_interval(days => coalesce(t.log_retention_days, e.log_retention_days, :days)) LIMIT :most))
""")


def set_of_experiment(ctx: Context, experiment_id: int, days: int) -> None:
    """Its trials follow."""
    _check(days)
    with ctx.db.begin() as tx:
        if not tx.execute(_OF_EXPERIMENT, {"id": experiment_id, "days": days}).rowcount:
            raise Missing(f"experiment {experiment_id} not found")
        tx.execute(_OF_ITS_TRIALS, {"id": experiment_id, "days": days})


def set_of_trial(ctx: Context, trial_id: int, days: int) -> None:
    _check(days)
    with ctx.db.begin() as tx:
        if not tx.execute(_OF_TRIAL, {"id": trial_id, "days": days}).rowcount:
            raise Missing(f"trial {trial_id} not found")


def days_left(ctx: Context, trial_id: int) -> int:
    """-1: kept forever, or not counting yet."""
    with ctx.db.begin() as tx:
        row = tx.execute(_LEFT, {"id": trial_id}).first()
    if row is None:
        raise Missing(f"trial {trial_id} not found")
    days = ctx.config.retention_policy.log_retention_days if row.days is None else row.days
    if days < 0 or row.ended_at is None:
        return FOREVER
    left: timedelta = row.ended_at + timedelta(days=days) - ctx.now()
    return max(left.days, 0)


def clean_up(ctx: Context, caller: User) -> int:
    """At once, instead of at its next time; how many lines went."""
    require_admin(caller, "clean up logs")
    return delete_old(ctx)


def delete_old(ctx: Context) -> int:
    """In transactions of a bounded size: one that is cut short leaves less to the next."""
    default = ctx.config.retention_policy.log_retention_days
    params = {"days": default, "now": ctx.now(), "most": AT_ONCE}
    removed = 0
    while True:
        with ctx.db.begin() as tx:
            gone = tx.execute(_CLEAN, params).rowcount
        removed += gone
        if gone < AT_ONCE:
            return removed


def _check(days: int) -> None:
    if not FOREVER <= days <= MAX_DAYS:
        raise Invalid(f"numDays must be between -1 (forever) and {MAX_DAYS}, not {days}")
