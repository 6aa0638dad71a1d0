"""The importance of hyperparameters, as the API shows it."""

import math
from typing import Any

from tests.support.api import Caller, create, report_metrics

E = "/api/v1/experiments"
SPACE = {
    "lr": {"type": "log", "base": 10, "minval": -5, "maxval": 0},
    "net": {"drop": {"type": "double", "minval": 0, "maxval": 1}},
    "fixed": 3,
}


def importance(caller: Caller, experiment_id: int) -> dict[str, Any]:
    found: dict[str, Any] = caller.get(f"{E}/{experiment_id}/importance")
    return found


def searched(caller: Caller, trials: int, *, smaller: bool) -> int:
    """Train trials with their best learning rate in the middle."""
    searcher = {
        "name": "random", "metric": "score", "max_trials": trials, "max_concurrent_trials": 0,
        "smaller_is_better": smaller,
    }  # fmt: skip
    experiment_id = create(caller, activate=True, searcher=searcher, hyperparameters=SPACE)
    for trial in caller.get(f"{E}/{experiment_id}/trials", limit=-1)["trials"]:
        distance = abs(math.log10(trial["hparams"]["lr"]) + 2.5)
        metrics = {"score": distance if smaller else -distance}
        report_metrics(caller, trial["id"], "validation", 1, metrics, run=1)
    return experiment_id


def test_learning_rate_with_its_best_value_in_the_middle_is_important(user: Caller) -> None:
    for smaller in (True, False):
        found = importance(user, searched(user, 60, smaller=smaller))
        assert (found["metric"], found["trials"], found["best"]) == ("score", 60, 15)
        assert found["smallerIsBetter"] is smaller
        first, second = found["hyperparameters"]
        assert first["name"] == "lr"
        assert first["importance"] > 0.8
        assert second["name"] == "net.drop"


def test_experiment_without_metrics_has_no_important_hyperparameter(user: Caller) -> None:
    found = importance(user, create(user))
    assert (found["trials"], found["best"], found["hyperparameters"]) == (0, 0, [])


def test_missing_experiment_is_not_found(user: Caller) -> None:
    assert user.ask("GET", f"{E}/999/importance").status == 404
