"""A validation report takes two statements, and has the same result in every process."""

import random
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest
from det_controlplane.core.trials.metrics import MetricsReport, storable
from det_controlplane.db.engine.database import Database, Tx
from det_controlplane.db.trials import metrics as rows
from det_controlplane.services.batching import BatchRejected
from det_controlplane.services.errors import Invalid, WrongState
from det_controlplane.services.memory import ProcessMemory
from det_controlplane.services.trials import metric_reports
from sqlalchemy import text

from tests.support.postgres import DatabaseServer
from tests.support.searching import ASHA, context, running, validate
from tests.support.statements import statements

START = datetime(2026, 11, 20, tzinfo=timezone.utc)
RANDOM = """
name: few
entrypoint: python3 train.py
hyperparameters: {lr: {type: double, minval: 0, maxval: 1}}
searcher: {name: random, metric: loss, max_trials: 3, max_length: {batches: 64}, smaller_is_better: false}
reproducibility: {experiment_seed: 7}
"""
_EVERYTHING = {
    "experiments": text(
        "SELECT state::text, progress, best_trial_id, best_metric FROM experiments ORDER BY id"
    ),
    "trials": text("""
        SELECT id, state::text, stop_requested, summary_metrics, total_batches, searcher_metric, best_validation_id,
               latest_validation_id FROM trials ORDER BY id"""),
    "metrics": text(
        "SELECT trial_id, run_id, metric_group, total_batches, metrics, archived FROM metrics ORDER BY id"
    ),
    "allocations": text(
        "SELECT id, state::text, preempt_at, kill_at, preempt_reason FROM allocations ORDER BY id"
    ),
    "search": text("SELECT seq, closed FROM searches ORDER BY experiment_id"),
    "events": text("SELECT seq, event FROM search_events ORDER BY experiment_id, seq"),
}


def everything(database: Database) -> dict[str, Any]:
    with database.begin() as tx:
        return {
            name: [tuple(r) for r in tx.execute(sql).all()] for name, sql in _EVERYTHING.items()
        }


def after_reports(
    url: str,
    config: str,
    reports: Callable[[list[int]], Iterator[Any]],
    *,
    forgets: bool = False,
) -> Any:
    database = Database(url)
    ctx, clock = context(database), [START]
    request_ids = random.Random(3)
    ctx.now = lambda: clock[0]
    ctx.random.uuid = lambda: UUID(int=request_ids.getrandbits(128), version=4)
    experiment = running(ctx, config)
    for report in reports(experiment.trials):
        clock[0] += timedelta(seconds=5)
        if forgets:
            ctx.memory = ProcessMemory()
        try:
            metric_reports.take(ctx, report)
        except (Invalid, WrongState):
            continue
    state = everything(database)
    database.dispose()
    return state


def mixed_reports(trials: list[int]) -> Iterator[MetricsReport]:
    """Rungs, steps between them, NaN, text, repetitions, merges, refusals and a restart."""
    chance = random.Random(11)
    for batches in (1, 4, 9, 16, 64, 256):
        for trial in trials:
            loss = chance.choice([chance.random(), chance.random(), float("nan"), 0.25])
            values = {"loss": storable(loss), "batches": batches, "note": "text", "ok": True}
            for _ in range(chance.choice([1, 1, 2])):
                yield MetricsReport(trial, 1, "validation", batches, values)
            if chance.random() < 0.2:
                yield MetricsReport(trial, 1, "training", batches, {"loss": 1.0})
                yield MetricsReport(trial, 1, "validation", batches, {"accuracy": 0.5})
    for batches in (4, 16, 64, 300):
        values = {"loss": 0.125, "batches": batches}
        yield MetricsReport(trials[0], 2, "validation", batches, values)
        yield MetricsReport(trials[0], 1, "validation", batches + 1, values)


@pytest.mark.parametrize("config", [ASHA.format(trials=12), RANDOM], ids=["asha", "random"])
def test_remembered_trials_and_searches_change_no_result(
    postgres_server: DatabaseServer, config: str
) -> None:
    with postgres_server.database() as url:
        remembered = after_reports(url, config, mixed_reports)
    with postgres_server.database() as url:
        read_again = after_reports(url, config, mixed_reports, forgets=True)
    for name in _EVERYTHING:
        assert remembered[name] == read_again[name], name


@pytest.mark.parametrize("config", [ASHA.format(trials=3), RANDOM], ids=["asha", "random"])
def test_plain_validation_report_takes_two_statements(database: Database, config: str) -> None:
    ctx = context(database)
    experiment = running(ctx, config)
    validate(ctx, experiment.trials[0], 1, 0.5)
    with statements(database) as queries:
        validate(ctx, experiment.trials[0], 2, 0.25)
    assert len(queries) == 2, queries


def test_number_of_statements_does_not_depend_on_number_of_trials(
    database: Database,
) -> None:
    ctx = context(database)
    counts = []
    for trials in (2, 150):
        with statements(database) as queries:
            experiment = running(ctx, ASHA.format(trials=trials))
        assert len(experiment.trials) == trials
        counts.append(len(queries))
    assert counts[0] == counts[1]


def test_new_trial_has_a_task_and_a_queued_allocation(database: Database) -> None:
    ctx = context(database)
    running(ctx, RANDOM)
    row = text("""
        SELECT t.run_id, t.task_id = k.id AS task, a.id = t.task_id || '.1' AS allocation, a.job_id = e.job_id AS job,
               k.kind::text AS kind, t.train_to, t.task_id = e.id || '.' || t.request_id AS named
        FROM trials t JOIN experiments e ON e.id = t.experiment_id JOIN tasks k ON k.trial_id = t.id
        JOIN allocations a ON a.trial_id = t.id ORDER BY t.id LIMIT 1""")
    assert tuple(database.read(row)[0]) == (1, True, True, True, "TRIAL", 64.0, True)


def test_nothing_is_stored_if_the_search_changed_concurrently(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Were the lock forgotten, the sequence number of the search would still hold."""
    ctx = context(database)
    experiment = running(ctx, ASHA.format(trials=2))
    before = everything(database)
    lock = rows.lock_with_experiment

    def behind(tx: Tx, experiment_id: int, reports: Any) -> Any:
        locked = lock(tx, experiment_id, reports)
        assert locked is not None
        locked.row.seq -= 1
        return locked

    monkeypatch.setattr(rows, "lock_with_experiment", behind)
    report = MetricsReport(experiment.trials[0], 1, "validation", 1, {"loss": 1, "batches": 1})
    with pytest.raises(BatchRejected):
        metric_reports.take(ctx, report)
    assert everything(database) == before


def test_planner_statistics_are_updated_after_creating_many_trials(database: Database) -> None:
    """Until the server's own analysis a minute later, plans for a small table would read every trial."""
    ctx = context(database)
    statement = text("SELECT reltuples FROM pg_class WHERE relname = 'trials'")
    running(ctx, ASHA.format(trials=2))
    assert database.read(statement)[0][0] < 200
    running(ctx, ASHA.format(trials=300))
    assert database.read(statement)[0][0] == 302


def test_search_for_an_earlier_report_uses_the_index_of_the_trial(database: Database) -> None:
    ctx = context(database)
    experiment = running(ctx, ASHA.format(trials=40))
    for trial in experiment.trials:
        validate(ctx, trial, 1, 0.5)
    report = MetricsReport(experiment.trials[0], 1, "validation", 1, {})
    statement = rows._LOCK_WITH_EXPERIMENT.text.replace(":id", str(experiment.id))
    explain = text(
        "EXPLAIN "
        + statement.replace(":reports", f"'{rows._encode_keys([report])}'")
        .replace(":", r"\:")
        .replace(r"\:\:", "::")
    )
    plan = database.read(explain)
    assert "one_report_a_step" in "\n".join(r[0] for r in plan)
