"""Reading the metrics of an experiment, over all its trials."""

from itertools import pairwise
from typing import Any

import pytest
from sqlalchemy import text

from tests.support.api import Api, Caller, create, report_metrics, trial_of

TWO = {"name": "random", "metric": "loss", "max_trials": 2, "max_length": {"batches": 9}}


def measured(user: Caller, smaller_is_better: bool = True) -> tuple[int, list[int]]:
    """An experiment with two trials, and their ids."""
    searcher = {**TWO, "smaller_is_better": smaller_is_better}
    experiment_id = create(user, searcher=searcher)
    trials = user.get(f"/api/v1/experiments/{experiment_id}/trials")["trials"]
    first, second = sorted(trial["id"] for trial in trials)
    for trial_id, step, loss in ((first, 2, 0.5), (second, 2, 0.7), (second, 4, 0.2)):
        report_metrics(user, trial_id, "training", step, {"rate": 1.0})
        report_metrics(user, trial_id, "validation", step, {"loss": loss, "odd": "NaN"})
    return experiment_id, [first, second]


def only(user: Caller, path: str, **query: object) -> dict[str, Any]:
    filters = {k: [str(v)] for k, v in query.items()}
    (message,) = user.lines(f"/api/v1/experiments/{path}", filters)
    curve: dict[str, Any] = message
    return curve


def test_metric_names_are_grouped_with_separate_searcher_metrics(user: Caller) -> None:
    experiment_id, _ = measured(user)
    names = only(user, "metrics-stream/metric-names", ids=experiment_id)
    assert names["searcherMetrics"] == ["loss"]
    assert names["trainingMetrics"] == ["rate"]
    assert names["validationMetrics"] == ["loss", "odd"]
    assert {"group": "training", "name": "rate"} in names["metricNames"]


@pytest.mark.parametrize("by", [{"group": "validation"}, {"metricType": "METRIC_TYPE_VALIDATION"}])
def test_stream_has_steps_and_values_of_a_metric(user: Caller, by: dict[str, str]) -> None:
    experiment_id, (first, second) = measured(user)
    stream = f"{experiment_id}/metrics-stream"
    assert only(user, f"{stream}/batches", metricName="loss", **by) == {"batches": [2, 4]}
    near = only(
        user,
        f"{stream}/trials-snapshot",
        metricName="loss",
        batchesProcessed=4,
        batchesMargin=2,
        **by,
    )["trials"]
    assert [(t["trialId"], t["batchesProcessed"], t["metric"]) for t in near] == [
        (first, 2, 0.5), (second, 4, 0.2),
    ]  # fmt: skip
    exact = only(user, f"{stream}/trials-snapshot", metricName="loss", batchesProcessed=4, **by)
    assert [t["trialId"] for t in exact["trials"]] == [second]
    assert exact["trials"][0]["hparams"] == {"lr": 0.1}


@pytest.mark.parametrize(("smaller", "bests"), [(True, [0.5, 0.2]), (False, [0.5, 0.7])])
def test_history_has_validations_that_were_best_so_far(
    user: Caller, smaller: bool, bests: list[float]
) -> None:
    experiment_id, _ = measured(user, smaller)
    response = user.get(f"/api/v1/experiments/{experiment_id}/validation-history")
    assert [entry["searcherMetric"] for entry in response["validationHistory"]] == bests


def test_rejects_unknown_experiments_and_missing_metric_names(user: Caller) -> None:
    experiment_id = create(user)
    assert trial_of(user, experiment_id)
    path = "/api/v1/experiments"
    assert user.ask("GET", f"{path}/999/validation-history").status == 404
    assert user.ask("GET", f"{path}/metrics-stream/metric-names").status == 400
    unnamed = user.ask("GET", f"{path}/{experiment_id}/metrics-stream/batches")
    assert "metricName and group" in unnamed.error
    assert user.ask("GET", "/api/v1/trials/time-series").status == 400


def test_extreme_bounds_cause_no_error(user: Caller) -> None:
    experiment_id, trials = measured(user)
    odd = {"maxTrials": -1, "maxDatapoints": 10**12, "endBatches": 10**12, "startBatches": -5}
    stream = f"{experiment_id}/metrics-stream/trials-sample"
    message = only(user, stream, metricName="loss", group="validation", **odd)
    assert len(message["trials"]) == len(trials)


def test_curves_of_trials_have_few_points(user: Caller) -> None:
    _, (first, second) = measured(user)
    for step in range(5, 25):
        report_metrics(user, second, "validation", step, {"loss": step / 10, "epochs": step})
    path = "/api/v1/trials/time-series"
    body = {"trialIds": [first, second], "metricIds": "validation.loss"}
    few, many = user.get(path, **body, maxDatapoints=4, startBatches=3)["trials"]
    assert (few["trial"]["id"], few["metrics"]) == (first, [])
    (curve,) = many["metrics"]
    assert (curve["group"], curve["type"]) == ("validation", "METRIC_TYPE_VALIDATION")
    assert len(curve["data"]) == 4
    assert curve["data"][-1]["batches"] == 24
    assert curve["data"][-1]["values"] == {"loss": 2.4}
    assert curve["data"][-1]["epoch"] == 24
    metrics = user.get(path, trialIds=[first], endBatches=2)["trials"][0]["metrics"]
    assert [m["group"] for m in metrics] == ["training", "validation"]


def test_equal_metric_names_of_two_groups_are_distinct(user: Caller) -> None:
    _, (_, trial_id) = measured(user)
    for group in ("training", "validation"):
        report_metrics(user, trial_id, group, 7, {"loss": 1.0, "accuracy": 0.5})
    body = {"metricIds": ["training.loss", "validation.accuracy"], "startBatches": 7}
    (trial,) = user.get("/api/v1/trials/time-series", trialIds=trial_id, **body)["trials"]
    points = {curve["group"]: curve["data"][0]["values"] for curve in trial["metrics"]}
    assert points == {"training": {"loss": 1.0}, "validation": {"accuracy": 0.5}}


@pytest.mark.parametrize("smaller", [True, False])
def test_curves_of_the_best_trials_come_first(user: Caller, smaller: bool) -> None:
    experiment_id, (first, second) = measured(user, smaller)
    stream = f"{experiment_id}/metrics-stream/trials-sample"
    message = only(user, stream, metricName="loss", group="validation", maxTrials=1)
    assert (message["promotedTrials"], message["demotedTrials"]) == ([second], [])
    (trial,) = message["trials"]
    assert [p["values"] for p in trial["data"]] == [{"loss": 0.7}, {"loss": 0.2}]
    both = only(user, stream, metricName="loss", group="validation")["trials"]
    assert [t["trialId"] for t in both] == [second, first]
    best = user.get(f"/api/v1/trials/{second}")["trial"]["searcherMetricValue"]
    assert both[0]["searcherMetricValue"] == best


LONG = 12_000  # reports: more than are numbered one by one
FILL = text("""
    INSERT INTO metrics (trial_id, run_id, metric_group, total_batches, metrics, reported_at)
    SELECT :trial, 1, g, n * 10, json_build_object(CASE WHEN n % 3 = 0 THEN 'rare' ELSE 'loss' END, n), now()
    FROM unnest(ARRAY['training', 'other']) AS g, generate_series(1, cast(:most AS integer)) AS n
""")


@pytest.fixture
def long_trial(api: Api, user: Caller) -> int:
    """The id of a trial with two groups of reports, each too long to be looked through."""
    trial_id = int(trial_of(user, create(user))["id"])
    with api.ctx.db.begin() as tx:
        tx.execute(FILL, {"trial": trial_id, "most": LONG})
    return trial_id


def test_a_long_curve_is_sampled_evenly_up_to_its_last_report(
    user: Caller, long_trial: int
) -> None:
    body = {"trialIds": long_trial, "maxDatapoints": 100}
    (trial,) = user.get("/api/v1/trials/time-series", **body)["trials"]
    assert [curve["group"] for curve in trial["metrics"]] == ["other", "training"]
    for curve in trial["metrics"]:
        steps = [point["batches"] for point in curve["data"]]
        assert len(steps) == 100
        assert steps[-1] == LONG * 10
        assert {b - a for a, b in pairwise(steps)} <= {1190, 1200, 1210}


def test_a_long_curve_of_one_metric_has_only_reports_with_it(user: Caller, long_trial: int) -> None:
    body = {"trialIds": long_trial, "metricIds": "training.rare", "startBatches": 30_000}
    (trial,) = user.get("/api/v1/trials/time-series", **body, maxDatapoints=50)["trials"]
    (curve,) = trial["metrics"]
    values = [point["values"] for point in curve["data"]]
    assert len(values) == 50
    assert all(set(value) == {"rare"} for value in values)
    assert values[-1] == {"rare": LONG}


def test_a_long_curve_with_a_gap_shows_both_of_its_ends(
    api: Api, user: Caller, long_trial: int
) -> None:
    report_metrics(user, long_trial, "training", LONG * 10_000, {"loss": 0.5})
    body = {"trialIds": long_trial, "metricIds": "training.loss", "maxDatapoints": 10}
    (trial,) = user.get("/api/v1/trials/time-series", **body)["trials"]
    steps = [point["batches"] for point in trial["metrics"][0]["data"]]
    assert steps == [LONG * 10 - 10, LONG * 10_000]
