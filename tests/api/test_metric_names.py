"""Reports with very many metric names: the API limits the names and stores the other metrics."""

import json
from typing import Any

import pytest
from det_controlplane.core.trials.metric_names import MOST_BYTES, MOST_GROUPS, MOST_NAMES
from det_controlplane.core.trials.metrics import MetricsReport
from det_controlplane.db.experiments import offered_names
from det_controlplane.db.trials import metric_names
from det_controlplane.services.trials import metric_reports

from tests.support.api import Api, Caller, create, report_metrics, trial_of
from tests.support.played_agent import task_of

MIB = 1 << 20
NAMES_STREAM = "/api/v1/experiments/metrics-stream/metric-names"
RANGES = "/api/v1/projects/1/experiments/metric-ranges"
# The size of one experiment's names in an answer: each name is in four columns, with its location and type.
COLUMNS_BYTES = 4 * (MOST_BYTES + 150 * MOST_NAMES)


def long_names(count: int, group: int) -> dict[str, float]:
    return {f"{group:03}-{n:06}-".ljust(910, "x"): 1.0 for n in range(count)}


def size_of(caller: Caller, path: str, **query: object) -> int:
    answer = caller.ask("GET", path, query={name: [str(value)] for name, value in query.items()})
    assert answer.status == 200
    return len(answer.body)


def summary(caller: Caller, trial_id: int) -> dict[str, Any]:
    metrics: dict[str, Any] = caller.get(f"/api/v1/trials/{trial_id}")["trial"]["summaryMetrics"]
    return metrics


def log_of(caller: Caller, trial_id: int) -> list[str]:
    lines = [line["message"] for line in caller.lines(f"/api/v1/trials/{trial_id}/logs")]
    return [line for line in lines if "metric names" in line]


def attack(task: Caller, trial_id: int, path: str) -> None:
    """Report names of 910 characters by one of the three ways to store reports."""
    for n in range(12):
        if path == "alone":
            report_metrics(task, trial_id, f"group-{n}", 2, long_names(2_000, n), run=1)
        elif path == "shared":  # small reports
            report_metrics(task, trial_id, "training", 2 + n, long_names(100, n), run=1)
        else:
            report_metrics(task, trial_id, "validation", 2 + n, long_names(1_000, n), run=1)


@pytest.mark.parametrize("path", ["alone", "shared", "validations"])
def test_metric_names_of_one_task_do_not_fill_responses_to_others(
    api: Api, user: Caller, path: str
) -> None:
    task, experiment = task_of(api, user)
    trial_id = trial_of(user, experiment)["id"]
    group = "validation" if path == "validations" else "training"
    report_metrics(task, trial_id, group, 1, {"loss": 1.0}, run=1)
    attack(task, trial_id, path)
    other = api.signed_in("admin")
    assert len(json.dumps(summary(other, trial_id))) < 2 * MOST_BYTES
    assert size_of(other, "/api/v1/projects/1/columns") < COLUMNS_BYTES
    assert size_of(other, "/api/v1/projects/0/columns", tableType="TABLE_TYPE_RUN") < COLUMNS_BYTES
    assert size_of(other, RANGES) < COLUMNS_BYTES
    assert size_of(other, NAMES_STREAM, ids=experiment) < 3 * MOST_BYTES
    assert size_of(other, f"/api/v1/trials/{trial_id}") < 5 * MOST_BYTES

    mixed = {"loss": 0.25, "new": 1.0, **long_names(3, 999)}
    answer = report_metrics(task, trial_id, group, 100, mixed, run=1)
    assert answer.status == 200
    assert "up to 2,000 names, 262,144 bytes and 100 groups" in answer.json()["warning"]
    key = {"training": "avg_metrics", "validation": "validation_metrics"}[group]
    metrics = summary(other, trial_id)[key]
    assert (metrics["loss"]["last"], metrics["loss"]["count"]) == (0.25, 2)
    assert not metrics.keys() & long_names(3, 999).keys()
    steps = other.get(f"/api/v1/trials/{trial_id}")["trial"]["totalBatchesProcessed"]
    assert steps == 100


def test_values_of_refused_names_are_not_stored(user: Caller) -> None:
    experiment = create(user)
    trial_id = trial_of(user, experiment)["id"]
    report_metrics(user, trial_id, "one", 1, {f"m{n}": n for n in range(MOST_NAMES)})
    report_metrics(user, trial_id, "one", 2, {"m3": 9, "new": 9})
    lines = user.lines("/api/v1/trials/metrics/trial_metrics", {"trialIds": [str(trial_id)]})
    reports = [report for message in lines for report in message["metrics"]]
    assert [len(report["metrics"]["avg_metrics"]) for report in reports] == [MOST_NAMES, 1]


def test_the_trials_of_a_search_share_the_names_of_their_experiment(user: Caller) -> None:
    search = {"name": "random", "metric": "loss", "max_trials": 3, "max_length": {"batches": 9}}
    experiment = create(user, searcher=search)
    trials = [t["id"] for t in user.get(f"/api/v1/experiments/{experiment}/trials")["trials"]]
    same = {f"m{n}": 1.0 for n in range(MOST_NAMES // 2 + 1)}
    answers = [report_metrics(user, t, "training", 1, same).json() for t in trials]
    assert answers == [{}] * 3
    own = report_metrics(user, trials[0], "own", 1, same).json()
    assert f"2 new metrics of trial {trials[0]} in group 'own'" in own["warning"]
    assert report_metrics(user, trials[1], "training", 2, same).json() == {}
    other = trial_of(user, create(user))["id"]
    assert report_metrics(user, other, "own", 1, same).json() == {}, "others have their own names"


def test_searcher_metric_is_accepted_above_the_limit(api: Api, user: Caller) -> None:
    task, experiment = task_of(api, user)
    trial_id = trial_of(user, experiment)["id"]
    for n in range(MOST_GROUPS):
        metrics = {f"m{m}": 1.0 for m in range(MOST_NAMES // MOST_GROUPS)}
        assert report_metrics(task, trial_id, f"g{n}", 1, metrics, run=1).json() == {}
    assert "warning" in report_metrics(task, trial_id, "another", 1, {}, run=1).json()
    assert report_metrics(task, trial_id, "validation", 1, {"loss": 0.5}, run=1).json() == {}
    assert user.get(f"/api/v1/trials/{trial_id}")["trial"]["searcherMetricValue"] == 0.5


def test_log_reports_refused_metrics_once_and_then_counts(user: Caller) -> None:
    trial_id = trial_of(user, create(user))["id"]
    report_metrics(user, trial_id, "one", 1, {f"m{n}": 1.0 for n in range(MOST_NAMES)})
    for step in range(2, 23):
        report_metrics(user, trial_id, "one", step, {"m1": 1.0, f"new-{step}": 1.0})
    first, tenth = log_of(user, trial_id)
    assert "has 2,000 metric names" in first
    assert "such as 'new-2'" in first
    assert "WARNING: 10 reports of this trial had metrics that were not stored. The last: " in tenth


def test_a_full_experiment_refuses_names_without_reading_them_again(
    user: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial_id = trial_of(user, create(user))["id"]
    report_metrics(user, trial_id, "one", 1, {f"m{n}": 1.0 for n in range(MOST_NAMES)})
    reads: list[int] = []
    original = metric_names.read

    def counted(tx: Any, experiment_id: int) -> Any:
        reads.append(experiment_id)
        return original(tx, experiment_id)

    monkeypatch.setattr(metric_names, "read", counted)
    for step in range(2, 5):
        answer = report_metrics(user, trial_id, "one", step, {"m1": 1.0, f"new-{step}": 1.0})
        assert "such as" in answer.json()["warning"]
        assert (
            "'other'" in report_metrics(user, trial_id, "other", step, {"a": 1}).json()["warning"]
        )
    assert reads == []


def test_why_counts_reports_with_refused_metrics(user: Caller) -> None:
    experiment = create(user)
    trial_id = trial_of(user, experiment)["id"]
    report_metrics(user, trial_id, "one", 1, {f"m{n}": 1.0 for n in range(MOST_NAMES)})
    for step in (2, 3):
        report_metrics(user, trial_id, "one", step, {f"new-{step}": 1.0})
    user.post(f"/api/v1/experiments/{experiment}/kill")
    for kind, id in (("experiment", experiment), ("trial", trial_id)):
        (reason,) = user.get(f"/api/v1/why/{kind}/{id}")["reasons"]
        assert "2 reports have metrics that were not stored" in reason["sentence"]


def test_columns_have_the_types_of_metrics(user: Caller) -> None:
    search = {"name": "random", "metric": "loss", "max_trials": 2, "max_length": {"batches": 9}}
    experiment = create(user, searcher=search)
    one, other = (t["id"] for t in user.get(f"/api/v1/experiments/{experiment}/trials")["trials"])
    report_metrics(user, one, "g", 1, {"a": 1.0, "b": 1.0, "day": "2026-11-20"})
    report_metrics(user, other, "g", 1, {"a": 2.0, "b": "text"})
    columns = user.get("/api/v1/projects/1/columns")["columns"]
    types = {c["column"]: c["type"] for c in columns if c["column"].startswith("g.")}
    number = dict.fromkeys(("g.a.last", "g.a.max", "g.a.mean", "g.a.min"), "COLUMN_TYPE_NUMBER")
    assert types == {**number, "g.b.last": "COLUMN_TYPE_TEXT", "g.day.last": "COLUMN_TYPE_DATE"}


def test_many_metric_names_do_not_displace_columns_of_others(
    user: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    bounds = {**offered_names._BOUNDS, "most_names": 50}
    monkeypatch.setattr(offered_names, "_BOUNDS", bounds)
    small = trial_of(user, create(user))["id"]
    report_metrics(user, small, "training", 1, {"loss": 1.0})
    for n in range(2):
        trial_id = trial_of(user, create(user))["id"]
        report_metrics(user, trial_id, "a", 1, {f"{n}-{m}": 1.0 for m in range(40)})
    names = {c["column"] for c in user.get("/api/v1/projects/1/columns")["columns"]}
    assert "training.loss.last" in names
    assert sum(name.endswith(".last") for name in names) == 50
    ranges = {r["metricsName"] for r in user.get(RANGES)["ranges"]}
    assert "training.loss.last" in ranges


def test_process_reads_names_stored_by_other_processes(api: Api, user: Caller) -> None:
    trial_id = trial_of(user, create(user))["id"]
    report_metrics(user, trial_id, "one", 1, {f"m{n}": 1.0 for n in range(MOST_NAMES)})
    api.ctx.memory.metric_names.store(1, {})
    report = MetricsReport(trial_id, 0, "one", 2, {"m5": 2.0, "new": 1.0})
    assert metric_reports.take_together(api.ctx, [report]) == [False]
    assert "such as 'new'" in (metric_reports.take(api.ctx, report) or "")
    assert summary(user, trial_id)["one"]["m5"]["last"] == 2.0
