"""Daily deletions."""

from datetime import timedelta

from det_controlplane.db.engine.database import Database
from det_controlplane.services.experiments import creation
from det_controlplane.services.maintenance import housekeeping, tick
from sqlalchemy import text

from tests.support.searching import OWNER, SINGLE, Agent, context

_TOKENS = text("SELECT count(*) FROM sessions WHERE kind = 'allocation'")
_EXPIRE = text("UPDATE sessions SET expires_at = :at WHERE kind = 'allocation'")


def test_expired_container_tokens_are_deleted_after_a_day(database: Database) -> None:
    ctx = context(database)
    agent = Agent.joined(ctx)
    creation.create(ctx, OWNER, creation.Submission(config=SINGLE))
    tick.run(ctx)
    agent.poll()
    assert database.read(_TOKENS)[0][0] == 1
    start = ctx.now()
    clock = [start]
    ctx.now = lambda: clock[0]
    with database.begin() as tx:
        tx.execute(_EXPIRE, {"at": start})
    leftovers = []
    for days in (0.9, 1.95):
        clock[0] = start + timedelta(days=days)
        assert housekeeping.run_if_due(ctx)
        leftovers.append(database.read(_TOKENS)[0][0])
    assert leftovers == [1, 0]
