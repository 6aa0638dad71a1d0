"""Reports that wait for the same lock share a transaction with the same result as separate ones."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from functools import partial
from itertools import count
from typing import Any
from uuid import UUID

import pytest
from det_controlplane.core.trials.metrics import MetricsReport, storable
from det_controlplane.db.engine.database import Database, Tx
from det_controlplane.db.engine.errors import DatabaseDown
from det_controlplane.db.trials import metrics as rows
from det_controlplane.services.context import Context
from det_controlplane.services.trials import metric_reports
from sqlalchemy import text

from tests.db.test_throughput_validations import everything
from tests.support.batches import all_at_once
from tests.support.postgres import DatabaseServer
from tests.support.searching import ASHA, Running, context, running, validate

START = datetime(2026, 11, 20, tzinfo=timezone.utc)
_TRANSACTIONS = text("SELECT count(DISTINCT xmin::text) FROM metrics")
_VALIDATIONS = text("""
    SELECT t.id, b.total_batches AS best, l.total_batches AS latest FROM trials t
    LEFT JOIN metrics b ON b.id = t.best_validation_id
    LEFT JOIN metrics l ON l.id = t.latest_validation_id ORDER BY t.id
""")
_EVENTS = text("SELECT event->>'request_id' AS id FROM search_events WHERE seq > 1 ORDER BY seq")


def report(trial: int, batches: int, loss: float | None) -> MetricsReport:
    values: dict[str, Any] = {"batches": batches}
    if loss is not None:
        values["loss"] = storable(loss)
    return MetricsReport(trial, 1, "validation", batches, values)


def sent_together(ctx: Context, experiment: Running, reports: Sequence[MetricsReport]) -> None:
    """Let reports wait in their order until all of them are there."""
    all_at_once(
        ctx.memory.reports,
        experiment.id,
        ctx.memory.turn(experiment.id),
        [partial(metric_reports.take, ctx, r) for r in reports],
    )


def sent_one_by_one(ctx: Context, experiment: Running, reports: Sequence[MetricsReport]) -> None:
    for one in reports:
        metric_reports.take(ctx, one)


def left_by(url: str, send: Any, batches: Sequence[Sequence[tuple[int, int, float | None]]]) -> Any:
    database = Database(url)
    ctx, numbers, clock = context(database), count(1), [START]
    ctx.now = lambda: clock[0]
    ctx.random.uuid = lambda: UUID(int=next(numbers))
    experiment = running(ctx, ASHA.format(trials=8))
    for batch in batches:
        clock[0] += timedelta(seconds=5)
        send(ctx, experiment, [report(experiment.trials[t], b, loss) for t, b, loss in batch])
    state = everything(database)
    # Rows of reports may be numbered differently.
    state["trials"] = [row[:-2] for row in state["trials"]]
    state["metrics"].sort(key=repr)
    state["validations"] = [tuple(row) for row in database.read(_VALIDATIONS)]
    database.dispose()
    return state


AT_THE_RUNG = [(t, 4, loss) for t, loss in enumerate((0.5, 0.9, 0.1, float("nan"), 0.05, 0.7))]
MIXES = {
    "decided at a rung": [AT_THE_RUNG],
    "two rungs of the same trials": [AT_THE_RUNG, [(4, 16, 0.3), (0, 16, 0.01)]],
    "a trial twice": [[(1, 4, 0.6), (0, 4, 0.5), (2, 4, 0.1), (0, 5, 0.4)]],
    "a repeated report": [[(0, 4, 0.5)], [(1, 4, 0.6), (0, 4, 0.5), (2, 4, 0.1)]],
    "one that ends the search": [[(0, 4, 0.5), (1, 4, None), (2, 4, 0.1), (3, 4, 0.2)]],
}


@pytest.mark.parametrize("mix", MIXES.values(), ids=MIXES)
def test_batched_reports_store_the_same_rows_as_single_reports(
    postgres_server: DatabaseServer, mix: Any
) -> None:
    with postgres_server.database() as url:
        together = left_by(url, sent_together, mix)
    with postgres_server.database() as url:
        alone = left_by(url, sent_one_by_one, mix)
    for name, expected in alone.items():
        assert together[name] == expected, name


def test_waiting_reports_share_the_next_transaction(database: Database) -> None:
    ctx = context(database)
    experiment = running(ctx, ASHA.format(trials=6))
    validate(ctx, experiment.trials[0], 1, 0.5)
    sent_together(ctx, experiment, [report(trial, 4, 0.5) for trial in experiment.trials])
    assert database.read(_TRANSACTIONS)[0][0] == 2
    assert len({r.id for r in database.read(_EVENTS)}) == len(experiment.trials)


def test_report_stored_by_another_process_does_not_block_others(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx = context(database)
    experiment = running(ctx, ASHA.format(trials=3))
    validate(ctx, experiment.trials[1], 4, 0.5)
    lock = rows.lock_with_experiment
    calls: list[int] = []

    def unaware(tx: Tx, experiment_id: int, reports: Any) -> Any:
        """Return the trials as a statement sees them that began before the other process committed."""
        locked = lock(tx, experiment_id, reports)
        assert locked is not None
        calls.append(len(locked.trials))
        if len(calls) > 1:
            return locked
        trials = {id: replace(trial, present=None) for id, trial in locked.trials.items()}
        return replace(locked, trials=trials)

    monkeypatch.setattr(rows, "lock_with_experiment", unaware)
    sent_together(ctx, experiment, [report(t, 4, 0.5) for t in experiment.trials])
    assert calls == [3, 1, 1, 1]
    assert len(database.read(_EVENTS)) == 3


def test_every_report_of_a_failed_transaction_fails(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx = context(database)
    experiment = running(ctx, ASHA.format(trials=2))

    def fail(*_: object) -> Any:
        raise DatabaseDown("the database does not answer")

    monkeypatch.setattr(rows, "store_with_events", fail)
    errors: list[BaseException] = []

    def send(ctx: Context, one: MetricsReport) -> None:
        with pytest.raises(DatabaseDown) as refusal:
            take(ctx, one)
        errors.append(refusal.value)

    take = metric_reports.take
    monkeypatch.setattr(metric_reports, "take", send)
    sent_together(ctx, experiment, [report(t, 1, 0.5) for t in experiment.trials])
    assert len(errors) == 2
    assert not database.read(_EVENTS)
