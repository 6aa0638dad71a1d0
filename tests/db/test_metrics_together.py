"""Small reports of metrics that come together share a statement; each is answered for itself."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from typing import Any

import pytest
from det_controlplane.core.trials.metric_names import MOST_NAMES
from det_controlplane.core.trials.metrics import MetricsReport
from det_controlplane.db.engine.database import Database, Tx
from det_controlplane.db.engine.errors import DatabaseDown, Unstorable
from det_controlplane.db.trials import metrics as rows
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, Missing, WrongState
from det_controlplane.services.trials import metric_reports
from sqlalchemy import text

from tests.support.postgres import DatabaseServer
from tests.support.searching import ASHA, SINGLE, context, running
from tests.support.statements import statements

NOW = datetime(2026, 11, 20, tzinfo=timezone.utc)
_TRANSACTIONS = text("SELECT count(DISTINCT xmin::text) FROM metrics")
_REPORTS = text("""
    SELECT trial_id, run_id, metric_group, total_batches, metrics, archived, reported_at FROM metrics
    ORDER BY trial_id, metric_group, total_batches, run_id
""")
_TRIALS = text("SELECT id, summary_metrics, total_batches FROM trials ORDER BY id")
_HOLD = text("SELECT id FROM trials WHERE id = :id FOR UPDATE")
_END = text("UPDATE trials SET state = 'COMPLETED', ended_at = :now WHERE id = :id")
_NEXT_RUN = text("UPDATE trials SET run_id = 2 WHERE id = :id")
_CUT = text("SELECT pg_terminate_backend(pg_backend_pid())")


class Killed(BaseException):
    """Stands for the end of the process of a thread."""


def report(trial: int, steps: int = 1, run: int = 1, **values: Any) -> MetricsReport:
    return MetricsReport(trial, run, "training", steps, values or {"loss": 0.5, "lr": 1e-3})


def sent_together(ctx: Context, reports: Sequence[MetricsReport]) -> list[str]:
    """Send reports together, and send the remaining ones alone. Return the answers."""
    outcomes = metric_reports.take_together(ctx, reports)
    return ["stored" if s else sent(ctx, one) for s, one in zip(outcomes, reports, strict=True)]


def sent_one_by_one(ctx: Context, reports: Sequence[MetricsReport]) -> list[str]:
    return [sent(ctx, one) for one in reports]


def sent(ctx: Context, one: MetricsReport) -> str:
    try:
        metric_reports.take(ctx, one)
    except (Invalid, Missing, WrongState, Unstorable) as e:
        return type(e).__name__
    return "stored"


def left(database: Database) -> list[Any]:
    return [[tuple(row) for row in database.read(query)] for query in (_REPORTS, _TRIALS)]


def a_mix(database: Database, trials: Sequence[int]) -> list[MetricsReport]:
    with database.begin() as tx:
        tx.execute(_END, {"id": trials[1], "now": NOW})
        tx.execute(_NEXT_RUN, {"id": trials[2]})
        tx.execute(_NEXT_RUN, {"id": trials[3]})
    return [
        report(trials[0]),
        report(trials[0], steps=2),
        report(trials[1]),
        report(trials[2]),
        report(trials[3], steps=4, run=2),
        report(trials[4], loss="a text with \0"),
        report(trials[5], run=2**40),
        report(trials[6]),
        report(trials[6]),
        report(trials[7], loss=0.5),
        report(trials[7], loss=0.25),
        report(trials[7], accuracy="NaN"),
        report(999_999),
    ]


def after(
    server: DatabaseServer, send: Callable[[Context, Sequence[MetricsReport]], list[str]]
) -> Any:
    with server.database() as url:
        database = Database(url)
        ctx = context(database)
        ctx.now = lambda: NOW
        trials = running(ctx, ASHA.format(trials=8)).trials
        metric_reports.take(ctx, report(trials[3], steps=4))
        metric_reports.take(ctx, report(trials[3], steps=8))
        outcomes = send(ctx, a_mix(database, trials))
        matching_rows = left(database)
        database.dispose()
    return outcomes, matching_rows


def test_batched_reports_have_the_same_results_as_single_reports(
    postgres_server: DatabaseServer,
) -> None:
    together, alone = after(postgres_server, sent_together), after(postgres_server, sent_one_by_one)
    assert together == alone
    assert together[0] == [
        "stored", "stored", "stored", "stored", "stored", "Unstorable", "Invalid", "stored", "stored",
        "stored", "Invalid", "stored", "Missing",
    ]  # fmt: skip


def test_reports_of_several_experiments_share_one_transaction(database: Database) -> None:
    ctx = context(database)
    trials = [t for _ in range(3) for t in running(ctx, SINGLE).trials]
    assert sent_together(ctx, [report(t) for t in trials]) == ["stored"] * 3
    assert database.read(_TRANSACTIONS)[0][0] == 1


def in_group(trial: int, group: str) -> MetricsReport:
    return MetricsReport(trial, 1, group, 1, {"loss": 0.5})


MALFORMED: list[tuple[Callable[[int], MetricsReport], str]] = [
    (lambda trial: report(trial, loss="\0"), "Unstorable"),
    (lambda trial: report(trial, loss="\ud800"), "Unstorable"),
    (lambda trial: report(trial, loss=10**400), "Invalid"),
    (lambda trial: in_group(trial, "a\0b"), "Unstorable"),
    (lambda trial: in_group(trial, "half \ud800"), "Invalid"),
]


@pytest.mark.parametrize(
    ("malformed", "refusal"), MALFORMED, ids=["nul", "surrogate", "integer", "group-nul", "group"]
)
def test_malformed_report_does_not_fail_other_reports(
    database: Database, malformed: Callable[[int], MetricsReport], refusal: str
) -> None:
    ctx = context(database)
    trials = running(ctx, ASHA.format(trials=3)).trials
    outcomes = sent_together(ctx, [report(trials[0]), malformed(trials[1]), report(trials[2])])
    assert outcomes == ["stored", refusal, "stored"]
    assert [row.trial_id for row in database.read(_REPORTS)] == [trials[0], trials[2]]
    assert sent(ctx, malformed(trials[1])) == refusal


def test_locked_trial_does_not_delay_reports_of_other_trials(database: Database) -> None:
    ctx = context(database)
    held_trial, free = running(ctx, ASHA.format(trials=2)).trials
    with database.begin() as tx:
        tx.execute(_HOLD, {"id": held_trial})
        assert metric_reports.take_together(ctx, [report(held_trial), report(free)]) == [
            False,
            True,
        ]
        assert [row.trial_id for row in database.read(_REPORTS)] == [free]
    assert metric_reports.take_together(ctx, [report(held_trial)]) == [True]


def test_concurrent_change_of_a_trial_is_not_overwritten(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx = context(database)
    changed, left_alone = running(ctx, ASHA.format(trials=2)).trials
    assert sent_together(ctx, [report(changed), report(left_alone)]) == ["stored"] * 2
    store = rows.store

    def late(tx: Tx, new: Any) -> Any:
        monkeypatch.setattr(rows, "store", store)
        metric_reports.take(context(database), report(changed, steps=2, loss=0.25))
        return store(tx, new)

    monkeypatch.setattr(rows, "store", late)
    reports = [report(changed, steps=3, loss=0.75), report(left_alone, steps=3)]
    assert metric_reports.take_together(ctx, reports) == [True, True]
    summary = database.read(_TRIALS)[0].summary_metrics["avg_metrics"]["loss"]
    assert (summary["count"], summary["sum"]) == (3, 1.5)


def test_lost_connection_stores_no_report_of_its_batch(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx = context(database)
    reports = [report(t) for t in running(ctx, ASHA.format(trials=4)).trials]

    def cut(tx: Tx, new: Any) -> Any:
        tx.execute(_CUT)
        raise AssertionError("the connection did not end")

    with monkeypatch.context() as patched:
        patched.setattr(rows, "store", cut)
        with pytest.raises(DatabaseDown):
            metric_reports.take_together(ctx, reports)
    assert not database.read(_REPORTS)
    assert sent_together(ctx, reports) == ["stored"] * 4
    assert_each_once(database, 4)


@pytest.mark.parametrize("committed", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("remembered", [False, True], ids=["locked", "remembered"])
def test_killed_thread_neither_loses_nor_repeats_reports(
    database: Database, monkeypatch: pytest.MonkeyPatch, committed: bool, remembered: bool
) -> None:
    ctx = context(database)
    trials = running(ctx, ASHA.format(trials=4)).trials
    if remembered:
        assert sent_together(ctx, [report(t) for t in trials]) == ["stored"] * 4
    reports = [report(t, steps=2) for t in trials]
    store, before = rows.store, len(database.read(_REPORTS))

    def die(tx: Tx, new: Any) -> Any:
        if committed:
            store(tx, new)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(rows, "store", die)
        with pytest.raises(Killed):
            metric_reports.take_together(ctx, reports)
    stored = len(database.read(_REPORTS)) - before
    assert stored == (4 if committed and remembered else 0)  # the first reports have a transaction
    assert sent_together(ctx, reports) == ["stored"] * 4
    assert len(database.read(_REPORTS)) == before + 4


def test_trials_reported_by_one_process_are_read_once(database: Database) -> None:
    ctx = context(database)
    trials = running(ctx, ASHA.format(trials=4)).trials
    requests = []
    for steps in (1, 2, 3):
        with statements(database) as of_step:
            outcomes = sent_together(ctx, [report(t, steps=steps, loss=steps / 2) for t in trials])
        assert outcomes == ["stored"] * 4
        requests.append(len(of_step))
    # The first reports ask for their experiment and its names, and add theirs.
    assert requests == [5, 1, 1]
    summary = {"count": 3, "sum": 3.0, "mean": 1.0, "min": 0.5, "max": 1.5, "last": 1.5}
    for row in database.read(_TRIALS):
        assert row.summary_metrics["avg_metrics"]["loss"] == {"type": "number", **summary}


def test_reports_of_other_processes_are_not_overwritten(database: Database) -> None:
    ctx, other = context(database), context(database)
    trial, next_run, validated = running(ctx, ASHA.format(trials=3)).trials
    assert sent_together(ctx, [report(t) for t in (trial, next_run, validated)]) == ["stored"] * 3
    assert sent(other, report(trial, steps=2)) == "stored"
    with database.begin() as tx:
        tx.execute(_NEXT_RUN, {"id": next_run})
    assert sent(other, report(next_run, steps=1, run=2)) == "stored"
    assert sent(other, MetricsReport(validated, 1, "validation", 2, {"loss": 2.0})) == "stored"
    outcomes = sent_together(
        ctx, [report(trial, steps=3), report(next_run, steps=2, run=2), report(validated, steps=3)]
    )
    assert outcomes == ["stored"] * 3
    summaries = [(row.total_batches, row.summary_metrics) for row in database.read(_TRIALS)]
    assert [(steps, all["avg_metrics"]["loss"]["count"]) for steps, all in summaries] == [
        (3, 3), (2, 2), (3, 2),
    ]  # fmt: skip
    assert summaries[2][1]["validation_metrics"]["loss"]["last"] == 2.0


def test_more_reports_than_the_limit_of_a_statement_are_stored(database: Database) -> None:
    ctx = context(database)
    trial, other = running(ctx, ASHA.format(trials=2)).trials
    count = rows.MOST_TOGETHER + 3
    many = [report(trial, steps=n, loss=1.0) for n in range(1, count)]
    assert metric_reports.take_together(ctx, [*many, report(other, loss=1.0)]) == [True] * count
    matching_rows = database.read(_TRIALS)
    assert [t.total_batches for t in matching_rows] == [count - 1, 1]
    assert matching_rows[0].summary_metrics["avg_metrics"]["loss"]["sum"] == count - 1


def names_of(database: Database) -> Any:
    return database.read(text("SELECT names FROM metric_names"))[0].names


def test_concurrent_processes_respect_the_limit_of_metric_names(database: Database) -> None:
    trials = running(context(database), ASHA.format(trials=4)).trials
    contexts = [context(database) for _ in trials]

    def add(ctx: Context, trial: int) -> None:
        for n in range(30):
            names = ["common", *(f"{trial}-{n}-{m}" for m in range(25))]
            metrics = dict.fromkeys(names, 1.0)
            metric_reports.take(ctx, MetricsReport(trial, 1, "training", n, metrics))

    with ThreadPoolExecutor() as threads:
        list(threads.map(add, contexts, trials))
    assert len(names_of(database)["training"]) == MOST_NAMES
    summaries = [row.summary_metrics["avg_metrics"] for row in database.read(_TRIALS)]
    assert {entry for one in summaries for entry in one} == names_of(database)["training"].keys()
    assert [one["common"]["count"] for one in summaries] == [30] * 4


def assert_each_once(database: Database, count: int) -> None:
    summaries = [row.summary_metrics["avg_metrics"]["loss"] for row in database.read(_TRIALS)]
    assert [(s["count"], s["sum"]) for s in summaries] == [(1, 0.5)] * count
    assert len(database.read(_REPORTS)) == count
