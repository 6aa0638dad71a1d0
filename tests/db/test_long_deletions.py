"""Experiments with many trials and reports are deleted part by part, in turns that leave time for other work."""

from datetime import datetime, timedelta

import pytest
from det_controlplane.db.cluster import outbox
from det_controlplane.db.experiments import deletions
from det_controlplane.db.schema.enums import EffectKind
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Unfinished
from det_controlplane.services.experiments import deletion
from det_controlplane.services.maintenance import effects
from sqlalchemy import text

from tests.support.searching import SINGLE, running, validate

_ROWS = text("""
    SELECT (SELECT count(*) FROM metrics), (SELECT count(*) FROM task_logs), (SELECT count(*) FROM trials),
        (SELECT count(*) FROM experiments), (SELECT count(*) FROM deleted_allocations)
""")
_ADD_METRICS = text("""
    INSERT INTO metrics (trial_id, run_id, metric_group, total_batches, metrics, reported_at)
    SELECT t.id, 1, 'training', n, '{}', :now FROM trials t, generate_series(1, 40) n
""")
_ADD_LOGS = text("""
    INSERT INTO task_logs (task_id, logged_at, log) SELECT k.id, :now, 'line' FROM tasks k, generate_series(1, 25) n
""")
_DOOM = text("UPDATE experiments SET state = 'DELETING', ended_at = :now")
_END = text("UPDATE trials SET state = 'COMPLETED', ended_at = :now")


def rows(ctx: Context) -> tuple[int, ...]:
    return tuple(ctx.db.read(_ROWS)[0])


@pytest.fixture
def doomed(ctx: Context, clock: list[datetime], monkeypatch: pytest.MonkeyPatch) -> Context:
    """Return the context of an experiment that is being deleted, in parts of 10 rows."""
    monkeypatch.setattr(deletions, "PART_ROWS", 10)
    running(ctx, SINGLE)
    validate(ctx, 1, 1, 0.5)
    with ctx.db.begin() as tx:
        for statement in (_ADD_METRICS, _ADD_LOGS, _END, _DOOM):
            tx.execute(statement, {"now": clock[0]})
    return ctx


def test_a_part_deletes_no_more_rows_than_a_statement_may(doomed: Context) -> None:
    metrics, *others = rows(doomed)
    with doomed.db.begin() as tx:
        assert deletions.delete_part(tx, 1)
    assert rows(doomed) == (metrics - 10, *others)


def test_parts_delete_everything_and_keep_what_was_used(doomed: Context) -> None:
    parts = 0
    with doomed.db.begin() as tx:
        while deletions.delete_part(tx, 1):
            parts += 1
    metrics, logs, trials, experiments, used = rows(doomed)
    assert (metrics, trials, experiments, used) == (0, 0, 1, 0)
    assert parts > 5
    assert logs == 0


def test_an_experiment_that_is_not_being_deleted_keeps_its_rows(ctx: Context) -> None:
    running(ctx, SINGLE)
    with ctx.db.begin() as tx:
        assert not deletions.delete_part(tx, 1)
    assert rows(ctx)[2] == 1


def test_a_turn_ends_before_everything_is_deleted(
    doomed: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletion, "_PARTS_OF_A_TURN", 2)
    metrics, *_ = rows(doomed)
    with pytest.raises(Unfinished):
        deletion._delete_trials(doomed, 1)
    assert rows(doomed)[0] == metrics - 20


def test_an_unfinished_effect_goes_on_a_second_later(
    ctx: Context, clock: list[datetime], monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: list[datetime] = []

    def work(ctx: Context, payload: object) -> None:
        turns.append(clock[0])
        if len(turns) < 3:
            raise Unfinished("half of it")

    monkeypatch.setitem(effects._HANDLERS, EffectKind.DELETE_EXPERIMENT, work)
    with ctx.db.begin() as tx:
        outbox.add(tx, EffectKind.DELETE_EXPERIMENT, {}, clock[0])
    done = []
    for _ in range(4):
        done.append(effects.run_due(ctx))
        clock[0] += timedelta(seconds=1)
    assert done == [0, 0, 1, 0]
    assert len(turns) == 3
