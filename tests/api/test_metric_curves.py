"""Reading back what an experiment measured, over all its trials."""

from typing import Any

import pytest

from tests.support.api import Caller, create, report_metrics, trial_of

TWO = {"name": "random", "metric": "loss", "max_trials": 2, "max_length": {"batches": 9}}


def measured(user: Caller, smaller_is_better: bool = True) -> tuple[int, list[int]]:
    """An experiment with two trials, and their ids."""
    searcher = {**TWO, "smaller_is_better": smaller_is_better}
    experiment_id = create(user, searcher=searcher)
    listed = user.get(f"/api/v1/experiments/{experiment_id}/trials")["trials"]
    first, second = sorted(trial["id"] for trial in listed)
    for trial_id, step, loss in ((first, 2, 0.5), (second, 2, 0.7), (second, 4, 0.2)):
        report_metrics(user, trial_id, "training", step, {"rate": 1.0})
        report_metrics(user, trial_id, "validation", step, {"loss": loss, "odd": "NaN"})
    return experiment_id, [first, second]


def only(user: Caller, path: str, **query: object) -> dict[str, Any]:
    asked = {k: [str(v)] for k, v in query.items()}
    (message,) = user.lines(f"/api/v1/experiments/{path}", asked)
    found: dict[str, Any] = message
    return found


def test_names_are_told_by_group_and_the_searched_ones_apart(user: Caller) -> None:
    experiment_id, _ = measured(user)
    names = only(user, "metrics-stream/metric-names", ids=experiment_id)
    assert names["searcherMetrics"] == ["loss"]
    assert names["trainingMetrics"] == ["rate"]
    assert names["validationMetrics"] == ["loss", "odd"]
    assert {"group": "training", "name": "rate"} in names["metricNames"]


@pytest.mark.parametrize("by", [{"group": "validation"}, {"metricType": "METRIC_TYPE_VALIDATION"}])
def test_steps_and_values_of_a_metric(user: Caller, by: dict[str, str]) -> None:
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
def test_the_history_has_the_validations_that_were_best_so_far(
    user: Caller, smaller: bool, bests: list[float]
) -> None:
    experiment_id, _ = measured(user, smaller)
    found = user.get(f"/api/v1/experiments/{experiment_id}/validation-history")
    assert [entry["searcherMetric"] for entry in found["validationHistory"]] == bests


def test_unknown_experiments_and_unnamed_metrics_are_refused(user: Caller) -> None:
    experiment_id = create(user)
    assert trial_of(user, experiment_id)
    path = "/api/v1/experiments"
    assert user.ask("GET", f"{path}/999/validation-history").status == 404
    assert user.ask("GET", f"{path}/metrics-stream/metric-names").status == 400
    unnamed = user.ask("GET", f"{path}/{experiment_id}/metrics-stream/batches")
    assert "metricName and group" in unnamed.error
