"""A scheduling pass waits for no allocation: reports lock those of their experiment in an order of their own."""

from det_controlplane.db import allocations, pool_marks
from det_controlplane.db.engine import Database
from det_controlplane.services.context import Context
from det_controlplane.services.experiments import creation
from det_controlplane.services.scheduling import schedule_pool
from det_controlplane.services.use_case import change
from sqlalchemy import text

from tests.support.searching import OWNER, SINGLE, Agent, context

_QUEUED = text("SELECT id FROM allocations WHERE state = 'QUEUED' ORDER BY requested_at, id")


def _two_that_want_one_slot(database: Database) -> tuple[Context, list[str]]:
    ctx = context(database)
    Agent.joined(ctx)
    for _ in range(2):
        creation.create(ctx, OWNER, creation.Submission(config=SINGLE))
    return ctx, _queued(ctx)


def _queued(ctx: Context) -> list[str]:
    return [row.id for row in ctx.db.read(_QUEUED)]


def test_a_pass_starts_one_while_a_report_holds_the_one_that_waits(database: Database) -> None:
    ctx, (starts, waits) = _two_that_want_one_slot(database)
    with change(ctx) as report:
        allocations.lock(report.tx, waits)
        assert schedule_pool.run(context(database), "default") is not None
        # In the other order than the pass: as a report whose search stops both.
        assert allocations.lock(report.tx, starts) is not None
    assert _queued(ctx) == [waits]


def test_a_pass_that_would_start_what_a_report_holds_leaves_the_pool_marked(
    database: Database,
) -> None:
    ctx, (starts, waits) = _two_that_want_one_slot(database)
    with change(ctx) as report:
        allocations.lock(report.tx, starts)
        assert schedule_pool.run(context(database), "default") is None
    with ctx.db.autocommit() as tx:
        assert pool_marks.dirty_pools(tx) == ["default"]
    assert _queued(ctx) == [starts, waits]
