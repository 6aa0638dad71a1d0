"""A pass reads how long requests have waited, and stores the agents that it keeps for them."""

from det_controlplane.db.engine.database import Database
from det_controlplane.services.context import Context
from det_controlplane.services.experiments import creation
from det_controlplane.services.maintenance import tick
from sqlalchemy import text

from tests.support.searching import OWNER, SINGLE, Agent, context

_AGE = text("UPDATE allocations SET requested_at = requested_at - interval '6 minutes'")
_TOLD = text("""
    SELECT a.state, coalesce(a.wait_reason, w.sentence) FROM allocations a
    LEFT JOIN wait_reasons w ON w.id = a.wait_reason_id ORDER BY a.requested_at, a.id
""")


def submit(ctx: Context, slots: int) -> None:
    config = f"{SINGLE}resources: {{slots_per_trial: {slots}}}"
    creation.create(ctx, OWNER, creation.Submission(config=config))
    tick.run(ctx)


def test_small_trial_does_not_overtake_a_large_one_after_five_minutes(database: Database) -> None:
    ctx = context(database)
    Agent.joined(ctx, slots=3)
    submit(ctx, 2)
    submit(ctx, 2)
    with database.begin() as tx:
        tx.execute(_AGE)
    submit(ctx, 1)
    with database.begin() as tx:
        (started_reason, _), (large, gang_reason), (small, why_small) = tx.execute(_TOLD).all()
    assert (started_reason, large, small) == ("ASSIGNED", "QUEUED", "QUEUED")
    assert gang_reason.endswith(
        "waited for more than 5 min, so slots freed on agent are reserved for it"
    )
    assert (
        f"the free slots on agent are reserved for experiment 2 of {OWNER.username}, which needs 2 slots"
        in why_small
    )
