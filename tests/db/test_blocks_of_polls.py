"""A poll reads few blocks, also while an old snapshot keeps the earlier versions of agents."""

import re

from det_controlplane.db.engine.database import Database, Tx
from sqlalchemy import text

from tests.support.searching import Agent, context

AGENTS, POLLS = 40, 20
_LOOK_UP = text("""
    EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) SELECT * FROM agents
    WHERE token_hash = (SELECT token_hash FROM agents WHERE id = 'agent-3')
""")


def blocks(tx: Tx) -> int:
    """Return the blocks of two look-ups of an agent by index."""
    tx.execute(text("SET LOCAL enable_seqscan = off"))
    plan = "\n".join(tx.execute(_LOOK_UP).scalars())
    return int(re.findall(r"Buffers: shared hit=(\d+)", plan)[0])


def test_an_old_snapshot_does_not_make_polls_read_every_version(database: Database) -> None:
    ctx = context(database)
    agents = [Agent.joined(ctx, f"agent-{n}") for n in range(AGENTS)]
    with database.begin() as old:
        old.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"))
        old.execute(text("SELECT count(*) FROM agents"))
        for _ in range(POLLS):
            for agent in agents:
                agent.poll()
        with database.begin() as tx:
            assert blocks(tx) < 2 * POLLS
