"""A deleted experiment leaves no data behind and keeps data that others use."""

from typing import Any
from uuid import UUID

import pytest
from det_controlplane.core.lifecycle.experiment import Command
from det_controlplane.db.engine.database import Database
from det_controlplane.db.logs import logs
from det_controlplane.services.context import Context
from det_controlplane.services.experiments import actions, creation, deletion
from det_controlplane.services.maintenance import effects
from sqlalchemy import text

from tests.support.searching import OWNER, SINGLE, context

_CONTEXT = text("""
    INSERT INTO contexts (id, size, sha256, object_key, uploaded, user_id, created_at)
    VALUES (:id, 1, 'x', 'contexts/big', true, 2, now())
""")
_USE = text("UPDATE experiments SET context_id = :context WHERE id = :id")
_TASK = text("SELECT id FROM tasks WHERE experiment_id = :id")
_SESSION = text("""
    INSERT INTO sessions (token_hash, kind, user_id, allocation_id, created_at)
    SELECT 'hash', 'allocation', 2, id, now() FROM allocations
""")
_WITHOUT_TRIALS = text("UPDATE experiments SET unmanaged = true WHERE id = :id")
_COUNT = "SELECT count(*) FROM {}"
TABLES = ("experiments", "jobs", "tasks", "trials", "allocations", "sessions", "task_logs",
          "searches", "search_events", "contexts")  # fmt: skip


class Objects:
    def __init__(self) -> None:
        self.deleted: list[str] = []

    def delete(self, key: str) -> None:
        self.deleted.append(key)


@pytest.fixture
def ctx(database: Database) -> Context:
    new_context = context(database)
    new_context.objects = Objects()  # type: ignore[assignment]
    return new_context


def ended(ctx: Context, used: UUID) -> int:
    """An experiment that was killed, with logs and a token of its trial."""
    experiment = creation.create(ctx, OWNER, creation.Submission(config=SINGLE))
    assert experiment.experiment_id is not None
    with ctx.db.begin() as tx:
        tx.execute(_USE, {"id": experiment.experiment_id, "context": used})
        logs.add_line(
            tx, tx.execute(_TASK, {"id": experiment.experiment_id}).scalar_one(), "hello", ctx.now()
        )
    actions.command(ctx, experiment.experiment_id, Command.KILL)
    return experiment.experiment_id


def uploaded(ctx: Context) -> UUID:
    context_id = ctx.random.uuid()
    with ctx.db.begin() as tx:
        tx.execute(_CONTEXT, {"id": context_id})
    return context_id


def delete(ctx: Context, experiment_id: int) -> None:
    """Delete an unmanaged experiment, which has no files to wait for."""
    deletion.delete(ctx, OWNER, experiment_id)
    with ctx.db.begin() as tx:
        tx.execute(_WITHOUT_TRIALS, {"id": experiment_id})
    effects.run_due(ctx)


def rows(database: Database) -> dict[str, Any]:
    return {t: database.read(text(_COUNT.format(t)))[0][0] for t in TABLES}


def test_deleting_an_experiment_deletes_its_rows_and_object(ctx: Context) -> None:
    before = rows(ctx.db)
    experiment_id = ended(ctx, uploaded(ctx))
    with ctx.db.begin() as tx:
        tx.execute(_SESSION)
    delete(ctx, experiment_id)
    assert rows(ctx.db) == before
    assert ctx.objects.deleted == ["contexts/big"]  # type: ignore[attr-defined]


def test_context_is_deleted_with_its_last_experiment(ctx: Context) -> None:
    shared = uploaded(ctx)
    parent, fork = ended(ctx, shared), ended(ctx, shared)
    delete(ctx, parent)
    assert rows(ctx.db)["contexts"] == 1
    assert ctx.objects.deleted == []  # type: ignore[attr-defined]
    delete(ctx, fork)
    assert rows(ctx.db)["contexts"] == 0


def test_deleting_a_deleted_experiment_has_no_effect(ctx: Context) -> None:
    experiment_id = ended(ctx, uploaded(ctx))
    delete(ctx, experiment_id)
    before = rows(ctx.db)
    deletion.experiments_effect(ctx, {"experiment_id": experiment_id})
    assert rows(ctx.db) == before
