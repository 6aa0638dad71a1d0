"""The importance of hyperparameters, as the API shows it."""

import math
from typing import Any

import pytest

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


def searched(caller: Caller, trials: int, *, smaller: bool = True, **searcher: Any) -> int:
    """Train trials with their best learning rate in the middle."""
    searcher = {
        "name": "random", "metric": "score", "max_trials": trials, "max_concurrent_trials": 0,
        "smaller_is_better": smaller, **searcher,
    }  # fmt: skip
    experiment_id = create(caller, activate=True, searcher=searcher, hyperparameters=SPACE)
    for trial in caller.get(f"{E}/{experiment_id}/trials", limit=-1)["trials"]:
        distance = abs(math.log10(trial["hparams"]["lr"]) + 2.5)
        metrics = {"score": distance if smaller else -distance, "batches": 1}
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
    assert found["note"] == (
        "0 trials reported a finite loss; at least 10 are necessary to compare the best with all."
    )


@pytest.mark.parametrize(
    ("trials", "notes"),
    [
        (9, "9 trials reported a finite score; at least 10 are necessary"),
        (12, "best 3 of 12 trials by score and all of them, in each hyperparameter alone. No difference is larger"),
        (12, "Fewer than 16 trials show only extreme differences."),
        (60, "0 % is no difference beyond chance."),
    ],
)  # fmt: skip
def test_note_says_how_many_trials_were_compared(user: Caller, trials: int, notes: str) -> None:
    assert notes in importance(user, searched(user, trials))["note"]


def test_note_says_that_a_method_tries_mostly_good_values(user: Caller) -> None:
    asha: dict[str, Any] = {
        "name": "model_asha",
        "time_metric": "batches",
        "max_time": 9,
        "max_concurrent_trials": 20,
    }
    note = "model_asha tries mostly good values, so an important hyperparameter can show 0 %"
    assert note in importance(user, searched(user, 20, **asha))["note"]
    assert "tries mostly good values" not in importance(user, searched(user, 20))["note"]


@pytest.mark.parametrize(
    ("space", "note"),
    [
        ({"lr": 0.1}, "12 trials reported a finite loss, all with the same hyperparameters."),
        ({"lr": {"type": "double", "minval": 0, "maxval": 1}}, "too many values are equal"),
    ],
)
def test_note_says_why_nothing_can_be_compared(
    user: Caller, space: dict[str, Any], note: str
) -> None:
    searcher = {"name": "random", "metric": "loss", "max_trials": 12, "max_concurrent_trials": 0}
    experiment_id = create(user, activate=True, searcher=searcher, hyperparameters=space)
    for trial in user.get(f"{E}/{experiment_id}/trials", limit=-1)["trials"]:
        report_metrics(user, trial["id"], "validation", 1, {"loss": 1.0}, run=1)
    assert note in importance(user, experiment_id)["note"]


def test_missing_experiment_is_not_found(user: Caller) -> None:
    assert user.ask("GET", f"{E}/999/importance").status == 404
