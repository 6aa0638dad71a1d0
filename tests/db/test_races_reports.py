"""Reports that arrive together, at one process of the API and at several."""

import threading
from collections.abc import Callable
from functools import partial

from det_controlplane.core import search
from det_controlplane.db.engine.database import Database
from det_controlplane.services.context import Context
from det_controlplane.services.search.journal import parse_space
from sqlalchemy import text

from tests.support.searching import ASHA, Running, context, running, validate

TRIALS, FIRST_RUNG = 24, 4
_COUNTS = text("""
    SELECT (SELECT count(*) FROM metrics) AS reports, (SELECT seq FROM searches) AS seq,
           (SELECT count(*) FROM search_events) AS events,
           (SELECT sum((summary_metrics#>>'{validation_metrics,loss,count}')::integer) FROM trials) AS summed
""")
_BEST = text("SELECT best_trial_id, best_metric FROM experiments")
_EVENTS = text("SELECT event FROM search_events ORDER BY seq")
_STOPPED = text("SELECT request_id::text FROM trials WHERE stop_requested ORDER BY 1")
_CONFIG = text("SELECT config, seed FROM experiments")
_TASK = text("SELECT task_id FROM trials WHERE id = :id")
_WAITING = text("""
    SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0
""")
_CHECKPOINTS = text("SELECT count(*) AS reported FROM checkpoints")


def together(*actions: Callable[[], None]) -> None:
    failures: list[BaseException] = []
    start = threading.Barrier(len(actions))

    def act(action: Callable[[], None]) -> None:
        start.wait()
        try:
            action()
        except BaseException as e:
            failures.append(e)

    threads = [threading.Thread(target=act, args=(a,)) for a in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


def reporting(ctx: Context, experiment: Running, part: int, parts: int) -> Callable[[], None]:
    def report() -> None:
        for trial in experiment.trials[part::parts]:
            validate(ctx, trial, FIRST_RUNG, 1.0 / trial)

    return report


def test_concurrent_reports_of_processes_are_each_counted_once(
    database: Database,
) -> None:
    first, second = context(database), context(database)
    experiment = running(first, ASHA.format(trials=TRIALS))
    together(*(reporting(ctx, experiment, i, 4) for i, ctx in enumerate((first, second) * 2)))
    counts, best = database.read(_COUNTS)[0], database.read(_BEST)[0]
    assert (counts.reports, counts.seq, counts.events, counts.summed) == (
        TRIALS, TRIALS + 1, TRIALS + 1, TRIALS,
    )  # fmt: skip
    assert (best.best_trial_id, best.best_metric) == (
        experiment.trials[-1], 1.0 / experiment.trials[-1],
    )  # fmt: skip


def test_replay_of_concurrent_reports_makes_the_same_decisions(database: Database) -> None:
    first, second = context(database), context(database)
    experiment = running(first, ASHA.format(trials=TRIALS))
    together(*(reporting(ctx, experiment, i, 4) for i, ctx in enumerate((first, second) * 2)))
    config = database.read(_CONFIG)[0]
    events = [r[0] for r in database.read(_EVENTS)]
    stopped_trials = [r[0] for r in database.read(_STOPPED)]
    search_again = search.new(config.config["searcher"], parse_space(config.config), config.seed)
    actions = [a for event in events for a in search_again.fold(search.event_from_json(event))]
    assert stopped_trials
    assert stopped_trials == sorted(a.request_id for a in actions if isinstance(a, search.Stop))


def test_report_sent_concurrently_by_several_processes_counts_once(database: Database) -> None:
    contexts = [context(database) for _ in range(4)]
    experiment = running(contexts[0], ASHA.format(trials=2))
    trial = experiment.trials[0]
    together(*(partial(validate, ctx, trial, 1, 0.5) for ctx in contexts))
    counts = database.read(_COUNTS)[0]
    assert (counts.reports, counts.seq, counts.summed) == (1, 2, 1)
