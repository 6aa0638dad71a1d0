"""The statements that load a pool see it one after the other, while others change it."""

from typing import Any

import pytest
from det_controlplane.core.config.cluster import load_cluster
from det_controlplane.core.paging import Page
from det_controlplane.core.schedule import Request
from det_controlplane.db.engine.database import Database, Tx
from det_controlplane.db.scheduling import jobs as job_rows
from det_controlplane.db.scheduling import schedule
from det_controlplane.services.context import Context
from det_controlplane.services.experiments import creation
from det_controlplane.services.queue import jobs
from det_controlplane.services.scheduling import schedule_pool
from sqlalchemy import text

from tests.support.searching import CLUSTER, OWNER, SINGLE, context

_END = text("UPDATE allocations SET state = 'TERMINATED', ended_at = now()")


def test_queue_is_listed_while_a_job_ends(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx = context(database)
    creation.create(ctx, OWNER, creation.Submission(config=SINGLE))
    execute = Tx.execute

    def overtaken(tx: Tx, statement: Any, *params: Any) -> Any:
        if statement is job_rows._LISTED_BY_ID:
            monkeypatch.setattr(Tx, "execute", execute)
            with database.begin() as other:
                other.execute(_END)
        return execute(tx, statement, *params)

    monkeypatch.setattr(Tx, "execute", overtaken)
    part = jobs.queue_of(ctx, "default", Page())
    assert (part.jobs, part.pagination["total"]) == ([], 1)


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
    assert jobs.queue_of(ctx, "default", Page(limit=1)).jobs[0]["name"] == first


def _pending(ctx: Context) -> tuple[Request, ...]:
    with ctx.db.begin() as tx:
        return schedule_pool.load(ctx, tx, "default").pending


def _statements(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list that gets each statement."""
    statements: list[Any] = []
    execute = Tx.execute

    def noted(tx: Tx, statement: Any, *params: Any) -> Any:
        statements.append(statement)
        return execute(tx, statement, *params)

    monkeypatch.setattr(Tx, "execute", noted)
    return statements


def test_details_of_queued_allocations_are_read_once(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx = context(database)
    creation.create(ctx, OWNER, creation.Submission(config=SINGLE))
    first = _pending(ctx)
    statements = _statements(monkeypatch)
    assert _pending(ctx) == first
    assert schedule._ALLOCATIONS in statements
    assert schedule._DETAILS not in statements


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE jobs SET priority = 7",
        "UPDATE allocations SET slots = 3",
        "UPDATE trials SET blocked_agents = '{a1}'",
    ],
)
def test_changed_rows_are_read_again(change: str, database: Database) -> None:
    ctx = context(database)
    creation.create(ctx, OWNER, creation.Submission(config=SINGLE))
    (before,) = _pending(ctx)
    with database.begin() as tx:
        tx.execute(text(change))
    (after,) = _pending(ctx)
    assert (before.job.priority, before.slots, before.blocked_agents) == (42, 1, frozenset())
    assert (after.job.priority, after.slots, after.blocked_agents) != (42, 1, frozenset())


def test_allocation_changed_during_the_read_is_read_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx = context(database)
    creation.create(ctx, OWNER, creation.Submission(config=SINGLE))
    execute = Tx.execute

    def overtaken(tx: Tx, statement: Any, *params: Any) -> Any:
        if statement is schedule._DETAILS:
            monkeypatch.setattr(Tx, "execute", execute)
            with database.begin() as other:
                other.execute(text("UPDATE jobs SET priority = 7"))
        return execute(tx, statement, *params)

    monkeypatch.setattr(Tx, "execute", overtaken)
    (request,) = _pending(ctx)
    assert request.job.priority == 7


def test_a_row_that_changes_twice_in_one_transaction_is_read_again(database: Database) -> None:
    ctx = context(database)
    creation.create(ctx, OWNER, creation.Submission(config=SINGLE))
    with database.begin() as tx:
        tx.execute(text("UPDATE allocations SET slots = 3"))
        (first,) = schedule.queued(tx, "default", 42)
        tx.execute(text("UPDATE allocations SET slots = 5"))
    (second,) = _pending(ctx)
    assert (first.request.slots, second.slots) == (3, 5)
