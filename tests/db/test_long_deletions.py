"""Experiments with many trials and reports are deleted part by part, in turns that leave time for other work."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from det_controlplane.db.cluster import outbox
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.experiments import deletion_parts
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
_ADD_VALUES = text("""
    INSERT INTO run_values (trial_id, name_id, experiment_id, number)
    SELECT t.id, n, t.experiment_id, n FROM trials t, generate_series(1, 40) n
""")
_ADD_CHECKPOINTS = text("""
    INSERT INTO checkpoints (uuid, trial_id, experiment_id, state, reported_at)
    SELECT gen_random_uuid(), CASE WHEN n > 40 THEN t.id END, t.experiment_id, 'DELETED', :now
    FROM trials t, generate_series(1, 80) n
""")
_ADD_EVENTS = text("""
    INSERT INTO search_events (experiment_id, seq, event)
    SELECT id, 1000 + n, '{}' FROM experiments, generate_series(1, 40) n
""")
# Also the rows that foreign keys delete.
_DELETED_ROWS = text("SELECT coalesce(sum(n_tup_del), 0) FROM pg_stat_xact_user_tables")
_USE = text(
    "UPDATE allocations SET started_at = requested_at, ended_at = :now, state = 'TERMINATED'"
)
_WITHOUT_FILES = text("UPDATE experiments SET unmanaged = true")
_DOOM = text("UPDATE experiments SET state = 'DELETING', ended_at = :now")
_END = text("UPDATE trials SET state = 'COMPLETED', ended_at = :now")


def rows(ctx: Context) -> tuple[int, ...]:
    return tuple(ctx.db.read(_ROWS)[0])


@pytest.fixture
def doomed(ctx: Context, clock: list[datetime], monkeypatch: pytest.MonkeyPatch) -> Context:
    """Return the context of an experiment that is being deleted, in parts of 10 rows."""
    monkeypatch.setattr(deletion_parts, "PART_ROWS", 10)
    running(ctx, SINGLE)
    validate(ctx, 1, 1, 0.5)
    with ctx.db.begin() as tx:
        for statement in (_ADD_METRICS, _ADD_LOGS, _END, _DOOM):
            tx.execute(statement, {"now": clock[0]})
    return ctx


def test_one_part_deletes_a_limited_number_of_rows(doomed: Context) -> None:
    metrics, *others = rows(doomed)
    with doomed.db.begin() as tx:
        assert deletion_parts.delete_part(tx, 1)
    assert rows(doomed) == (metrics - 10, *others)


def test_each_transaction_deletes_few_rows(doomed: Context, clock: list[datetime]) -> None:
    with doomed.db.begin() as tx:
        for statement in (_ADD_VALUES, _ADD_CHECKPOINTS, _ADD_EVENTS):
            tx.execute(statement, {"now": clock[0]})
    batches: list[int] = []

    def count_deleted(delete: Callable[[Tx, int], object]) -> object:
        with doomed.db.begin() as tx:
            before = tx.execute(_DELETED_ROWS).scalar_one()
            result = delete(tx, 1)
            batches.append(tx.execute(_DELETED_ROWS).scalar_one() - before)
            return result

    while count_deleted(deletion_parts.delete_part):
        pass
    count_deleted(deletion_parts.delete_experiment)
    assert sum(batches) > 200
    assert max(batches) <= 20, "each of these tables has 25 rows or more"


def test_a_deletion_continues_after_a_crash_between_two_parts(
    doomed: Context, clock: list[datetime], monkeypatch: pytest.MonkeyPatch
) -> None:
    used = rows(doomed)[4]
    with doomed.db.begin() as tx:
        tx.execute(_WITHOUT_FILES)
        tx.execute(_USE, {"now": clock[0]})
        outbox.add(tx, EffectKind.DELETE_EXPERIMENT, {"experiment_id": 1, "key": "x"}, clock[0])
    parts, delete = [], deletion_parts.delete_part

    def crash_at_third(tx: Tx, experiment_id: int) -> int:
        parts.append(delete(tx, experiment_id))
        if len(parts) == 3:
            raise RuntimeError("killed")
        return parts[-1]

    monkeypatch.setattr(deletion_parts, "delete_part", crash_at_third)
    before = rows(doomed)
    assert effects.run_due(doomed) == 0
    after = rows(doomed)
    assert after == (before[0] - 20, *before[1:]), "the third part was rolled back"
    clock[0] += timedelta(minutes=1)
    assert effects.run_due(doomed) == 1
    assert rows(doomed) == (0, 0, 0, 0, used + 1)


def test_tick_starts_no_more_effects_after_its_time_limit(
    ctx: Context, clock: list[datetime], monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(ctx: Context, payload: object) -> None:
        clock[0] += timedelta(seconds=16)

    monkeypatch.setitem(effects._HANDLERS, EffectKind.DELETE_OBJECT, work)
    with ctx.db.begin() as tx:
        for _ in range(5):
            outbox.add(tx, EffectKind.DELETE_OBJECT, {}, clock[0])
    assert [effects.run_due(ctx) for _ in range(4)] == [2, 2, 1, 0]


def test_parts_delete_all_rows_except_the_experiment(doomed: Context) -> None:
    parts = 0
    with doomed.db.begin() as tx:
        while deletion_parts.delete_part(tx, 1):
            parts += 1
    metrics, logs, trials, experiments, used = rows(doomed)
    assert (metrics, trials, experiments, used) == (0, 0, 1, 0)
    assert parts > 5
    assert logs == 0


def test_rows_of_an_active_experiment_are_not_deleted(ctx: Context) -> None:
    running(ctx, SINGLE)
    with ctx.db.begin() as tx:
        assert not deletion_parts.delete_part(tx, 1)
    assert rows(ctx)[2] == 1


def test_one_turn_deletes_a_limited_number_of_rows(
    doomed: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletion, "_ROWS_OF_A_TURN", 20)
    metrics, *_ = rows(doomed)
    with pytest.raises(Unfinished):
        deletion._delete_parts(doomed, 1, 20)
    assert rows(doomed)[0] == metrics - 20


def test_unfinished_effect_continues_after_one_second(
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
