"""The statements that load a pool see it one after the other, while others change it."""

from typing import Any

import pytest
from det_controlplane.core.config.cluster import load_cluster
from det_controlplane.db.engine.database import Database, Tx
from det_controlplane.db.scheduling import schedule
from det_controlplane.services.experiments import creation
from det_controlplane.services.maintenance import tick
from det_controlplane.services.queue import jobs
from sqlalchemy import text

from tests.support.searching import CLUSTER, OWNER, SINGLE, Agent, context

_END = text("UPDATE allocations SET state = 'TERMINATED', ended_at = now()")


@pytest.mark.parametrize("scheduler", ["priority", "fair_share", "round_robin"])
def test_a_queue_is_listed_while_one_of_its_jobs_ends(
    scheduler: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx = context(database)
    manager = {"type": "agent", "scheduler": {"type": scheduler}}
    ctx.config = load_cluster({**CLUSTER, "resource_manager": manager})
    Agent.joined(ctx)
    creation.create(ctx, OWNER, creation.Submission(config=SINGLE))
    tick.run(ctx)
    execute = Tx.execute

    def overtaken(tx: Tx, statement: Any, *params: Any) -> Any:
        if statement is schedule._ALLOCATIONS:
            monkeypatch.setattr(Tx, "execute", execute)
            with database.begin() as other:
                other.execute(_END)
        return execute(tx, statement, *params)

    monkeypatch.setattr(Tx, "execute", overtaken)
    queue = jobs.queue_of(ctx, "default", descending=False)
    assert len(queue.entries) == 1
    assert jobs.shown(ctx, queue, queue.entries) == []


@pytest.mark.parametrize(("default", "first"), [(42, "named"), (10, "plain")])
def test_a_job_without_a_priority_has_the_default_of_the_pool(
    default: int, first: str, database: Database
) -> None:
    ctx = context(database)
    manager = {"type": "agent", "scheduler": {"type": "priority", "default_priority": default}}
    ctx.config = load_cluster({**CLUSTER, "resource_manager": manager})
    for name, more in (("plain", ""), ("named", "resources: {priority: 20}")):
        config = SINGLE.replace("name: one", f"name: {name}") + more
        creation.create(ctx, OWNER, creation.Submission(config=config))
    queue = jobs.queue_of(ctx, "default", descending=False)
    assert jobs.shown(ctx, queue, queue.entries[:1])[0]["name"] == first
