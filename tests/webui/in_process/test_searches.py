"""Pages of a search that stops trials at rungs."""

import re
from typing import Any

import pytest

from tests.support.api import Caller, create, report_metrics
from tests.support.browser import Tab
from tests.support.house import House
from tests.support.searches import MODEL, SPACE, train

ASHA: dict[str, Any] = {
    "name": "async_halving", "metric": "loss", "time_metric": "batches", "max_time": 9, "num_rungs": 2,
    "divisor": 3, "max_trials": 2, "max_concurrent_trials": 2,
}  # fmt: skip


@pytest.fixture(scope="module")
def halved(house: House) -> tuple[int, int, int]:
    """A completed search, its finished trial, and the trial that was better before the rung that stopped it."""
    experiment_id = create(house.admin, activate=True, searcher=ASHA, hyperparameters=SPACE)
    trials = house.admin.get(f"/api/v1/experiments/{experiment_id}/trials")["trials"]
    finished, stopped = (trial["id"] for trial in trials)
    for trial, batches, loss in (
        (finished, 3, 0.4), (stopped, 2, 0.1), (stopped, 3, 0.7), (finished, 9, 0.3),
    ):  # fmt: skip
        validate(house.admin, trial, batches, loss)
    house.admin.post(f"/api/v1/experiments/{experiment_id}/kill")
    return experiment_id, finished, stopped


def validate(caller: Caller, trial: int, batches: int, loss: float) -> None:
    metrics = {"loss": loss, "batches": batches}
    response = report_metrics(caller, trial, "validation", batches, metrics, run=1)
    assert response.status == 200, response.error


def test_search_shows_the_value_at_the_deciding_rung(
    tab: Tab, halved: tuple[int, int, int]
) -> None:
    experiment_id, finished, stopped = halved
    tab.open(f"/experiments/{experiment_id}/search")
    line = tab.page.get_by_role("button", name=re.compile(rf"^Trial {stopped}\b"))
    line.locator(".trial-value").get_by_text("0.7, best trial, stopped at rung 1").wait_for()
    other = tab.page.get_by_role("button", name=re.compile(rf"^Trial {finished}\b"))
    other.locator(".trial-value").get_by_text(re.compile("^0.3$")).wait_for()
    line.press("Enter")
    tab.page.get_by_text("its best loss is 0.1").wait_for()


def test_trial_that_the_searcher_stopped_is_shown_as_stopped_early(
    tab: Tab, house: House, halved: tuple[int, int, int]
) -> None:
    experiment_id, finished, stopped = halved
    tab.open(f"/experiments/{experiment_id}/trials")
    rows = tab.page.locator("tbody tr")
    states = {
        rows.nth(n).locator("a").inner_text(): rows.nth(n).locator(".state").inner_text()
        for n in range(2)
    }
    assert states == {str(finished): "Completed", str(stopped): "Stopped early"}
    tab.open(f"/trials/{stopped}")
    tab.page.locator(".head .state", has_text="Stopped early").wait_for()
    tab.open(f"/compare?trials={finished},{stopped}")
    tab.page.get_by_role("cell", name="Stopped early").wait_for()
    states = {
        t["id"]: t["state"]
        for t in house.admin.get(f"/api/v1/experiments/{experiment_id}/trials")["trials"]
    }
    assert states == dict.fromkeys((finished, stopped), "STATE_COMPLETED")


def test_search_that_ended_early_says_why(tab: Tab, house: House) -> None:
    searcher = {**MODEL, "stop_when": {"expected_gain_below": 5.0}}
    experiment_id = create(house.admin, activate=True, searcher=searcher, hyperparameters=SPACE)
    assert train(house.admin, experiment_id, 60) < 60
    tab.open(f"/experiments/{experiment_id}/search")
    sentence = "The search ended early: the expected gain in loss by another full training of"
    tab.page.get_by_text(sentence).wait_for()
    tab.open(f"/experiments/{experiment_id}/hyperparameters")
    tab.page.get_by_text("model_asha tries mostly good values").wait_for()


def test_hyperparameter_with_its_best_value_in_the_middle_is_important(
    tab: Tab, house: House
) -> None:
    """Importance was a correlation, which is 0 here."""
    searcher = {"name": "random", "metric": "loss", "max_trials": 60, "max_concurrent_trials": 0}
    space = {
        "lr": {"type": "double", "minval": 0, "maxval": 1},
        "other": {"type": "double", "minval": 0, "maxval": 1},
    }
    experiment_id = create(house.admin, activate=True, searcher=searcher, hyperparameters=space)
    trials = house.admin.get(f"/api/v1/experiments/{experiment_id}/trials", limit=-1)["trials"]
    for trial in trials:
        validate(house.admin, trial["id"], 3, abs(trial["hparams"]["lr"] - 0.5))
    tab.open(f"/experiments/{experiment_id}/hyperparameters")
    tab.page.get_by_text("Difference between the best 15 of 60 trials by loss").wait_for()
    bars = tab.page.locator(".bars li")
    assert bars.first.locator(".cut").inner_text() == "lr"
    assert int(bars.first.locator(".number").inner_text().split()[0]) > 80
