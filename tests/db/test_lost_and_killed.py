"""A task is killed or paused while the loss of its agent follows its run by another one."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from det_controlplane.core.lifecycle.allocation import Exit, ExitKind
from det_controlplane.core.lifecycle.task import TaskKind
from det_controlplane.db.engine.database import Database
from det_controlplane.db.scheduling import allocations
from det_controlplane.services.context import Context
from det_controlplane.services.interactive import interactive
from det_controlplane.services.scheduling import stopping
from det_controlplane.services.tasks import generic, lifecycle
from det_controlplane.services.tasks.generic import NewGenericTask
from det_controlplane.services.tasks.launching import Submission
from det_controlplane.services.use_case import change
from sqlalchemy import text

from tests.support.searching import OWNER, context

_START = text("UPDATE allocations SET state = 'STARTING', epoch = 1 WHERE task_id = :id")
_WAITING = text("""
    SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0
""")
_LIVE = text("SELECT id FROM allocations WHERE task_id = :id AND state <> 'TERMINATED'")
_ENDED = text("SELECT ended_at IS NOT NULL AS ended FROM tasks WHERE id = :id")
_STATE = text("SELECT state::text AS state FROM tasks WHERE id = :id")
LOST = Exit(ExitKind.INFRASTRUCTURE, "agent a1 was lost")
COMMAND = {"entrypoint": ["ls"], "resources": {"slots": 0}}


@pytest.fixture
def ctx(database: Database) -> Context:
    return context(database)


def started(ctx: Context, task_id: str) -> str:
    with ctx.db.begin() as tx:
        tx.execute(_START, {"id": task_id})
    return task_id


def command(ctx: Context) -> str:
    task = interactive.launch(ctx, OWNER, Submission(TaskKind.COMMAND, COMMAND))
    return started(ctx, str(task.shown["id"]))


def generic_task(ctx: Context) -> str:
    config = "entrypoint: [ls]\nresources: {slots: 0}\n"
    new = NewGenericTask(config, Submission(TaskKind.GENERIC, {}))
    return started(ctx, generic.create(ctx, OWNER, new).task_id)


def lose_during(ctx: Context, task_id: str, act: Callable[[], object]) -> None:
    """Let `act` wait for the transaction in which a lost run is followed by the next."""
    with ThreadPoolExecutor(1) as threads:
        with change(ctx) as loss:
            allocation = allocations.lock(loss.tx, f"{task_id}.1")
            assert allocation is not None
            acted = threads.submit(act)
            while not ctx.db.read(_WAITING):
                assert not acted.done(), acted.result()
            stopping.end(loss, allocation, LOST)
            lifecycle.allocation_ended(loss, allocation, LOST)
        acted.result(60)


def live(ctx: Context, task_id: str) -> list[str]:
    return [row.id for row in ctx.db.read(_LIVE, {"id": task_id})]


def test_kill_during_the_loss_of_an_agent_ends_the_next_run(ctx: Context) -> None:
    id = command(ctx)
    lose_during(ctx, id, lambda: interactive.kill(ctx, OWNER, TaskKind.COMMAND, id))
    assert not live(ctx, id)
    assert ctx.db.read(_ENDED, {"id": id})[0].ended


def test_lost_run_is_followed_by_another_run(ctx: Context) -> None:
    id = command(ctx)
    with change(ctx) as loss:
        allocation = allocations.lock(loss.tx, f"{id}.1")
        assert allocation is not None
        stopping.end(loss, allocation, LOST)
        lifecycle.allocation_ended(loss, allocation, LOST)
    assert live(ctx, id) == [f"{id}.2"]


@pytest.mark.parametrize("then", ["CANCELED", "PAUSED"])
def test_pausing_or_killing_a_task_during_a_loss_has_no_deadlock(ctx: Context, then: str) -> None:
    id = generic_task(ctx)

    def steer() -> None:
        if then == "CANCELED":
            generic.kill(ctx, OWNER, id, from_root=False)
        else:
            generic.pause(ctx, OWNER, id)

    lose_during(ctx, id, steer)
    assert not live(ctx, id)
    assert ctx.db.read(_STATE, {"id": id})[0].state == then
