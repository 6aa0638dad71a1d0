"""Decisions of a search, as pages and commands ask for them."""

from typing import Any

import pytest
from det_controlplane.services.experiments import live

from tests.support.api import Api, Caller, config_of, create, report_metrics, trial_of
from tests.support.played_agent import PlayedAgent

E = "/api/v1/experiments"
ASHA: dict[str, Any] = {
    "name": "async_halving", "metric": "loss", "time_metric": "batches", "max_time": 9, "num_rungs": 3,
    "divisor": 3, "max_trials": 3, "max_concurrent_trials": 3,
}  # fmt: skip
SPACE = {"lr": {"type": "log", "base": 10, "minval": -4, "maxval": -1}}
STOPPED = "was stopped by ASHA at rung 1 of 3 (1 batches): 0.5 was not among the best 1 of 2 (cut-off 0.25)"


def searched(caller: Caller, experiment_id: int) -> dict[str, Any]:
    response: dict[str, Any] = caller.get(f"{E}/{experiment_id}/search")
    return response


def validated(caller: Caller, trial_id: int, batches: int, loss: float) -> None:
    metrics = {"loss": loss, "batches": batches}
    response = report_metrics(caller, trial_id, "validation", batches, metrics, run=1)
    assert response.status == 200, response.error


def test_search_shows_current_rungs_and_reasons(api: Api, user: Caller) -> None:
    experiment_id = create(user, activate=True, searcher=ASHA, hyperparameters=SPACE)
    before = searched(user, experiment_id)
    assert (before["method"], before["metric"], before["unit"]) == (
        "async_halving",
        "loss",
        "batches",
    )
    first, second, third = (t["id"] for t in before["trials"])
    assert [r["arrived"] for b in before["brackets"] for r in b["rungs"]] == [0, 0, 0]
    validated(user, first, 1, 0.25)
    validated(user, second, 1, 0.5)
    search = searched(user, experiment_id)
    (bracket,) = search["brackets"]
    assert bracket["rungs"][0] == {
        "length": 1, "arrived": 2, "wentOn": 1, "stopped": 1, "cutOff": 0.25,
    }  # fmt: skip
    trials = {t["id"]: (t["bracket"], t["rung"], t["outcome"]) for t in search["trials"]}
    assert trials == {first: (0, 1, "WENT_ON"), second: (0, 1, "STOPPED"), third: (0, 0, None)}
    rung_values = {t["id"]: t["rungValue"] for t in search["trials"]}
    assert rung_values == {first: 0.25, second: 0.5, third: None}
    sentences = {t["id"]: t["sentence"] for t in search["trials"]}
    assert sentences[second] == STOPPED
    assert sentences[third] == ""
    # Another process without a cache gives the same answer.
    api.ctx.memory.watched.pop(experiment_id)
    assert searched(user, experiment_id) == search


def test_trials_that_a_rung_stopped_are_listed_as_stopped_early(user: Caller) -> None:
    searcher = {**ASHA, "max_trials": 2, "max_concurrent_trials": 2}
    experiment_id = create(user, activate=True, searcher=searcher, hyperparameters=SPACE)
    first, second = (t["id"] for t in searched(user, experiment_id)["trials"])
    for trial, batches, loss in (
        (first, 1, 0.25),
        (second, 1, 0.5),
        (first, 3, 0.2),
        (first, 9, 0.1),
    ):
        validated(user, trial, batches, loss)
    user.post(f"{E}/{experiment_id}/kill")
    trials = user.get(f"{E}/{experiment_id}/trials")["trials"]
    runs = user.post("/api/v1/runs", {"projectId": 0})["runs"]
    for rows in (trials, runs, searched(user, experiment_id)["trials"]):
        by_id = {row["id"]: (row["state"], row["stoppedEarly"]) for row in rows}
        assert by_id[first] == ("STATE_COMPLETED", False)
        assert by_id[second] == ("STATE_COMPLETED", True)


def test_search_without_rungs_has_only_trials(user: Caller) -> None:
    search = searched(user, create(user))
    assert search["brackets"] == []
    (trial,) = search["trials"]
    assert (trial["bracket"], trial["sentence"], trial["trained"]) == (None, "", 0)


def test_hyperparameters_of_trials_are_returned_on_request(user: Caller) -> None:
    experiment_id = create(user)
    assert "hparams" not in searched(user, experiment_id)["trials"][0]
    (trial,) = user.get(f"{E}/{experiment_id}/search", whole="true")["trials"]
    (listed_trial,) = user.get(f"{E}/{experiment_id}/trials")["trials"]
    same = ("id", "state", "hparams", "restarts", "startTime", "endTime", "wallClockTime")
    assert {name: trial[name] for name in same} == {name: listed_trial[name] for name in same}


def test_search_of_a_missing_experiment_is_not_found(user: Caller) -> None:
    response = user.ask("GET", f"{E}/999/search")
    assert (response.status, "999" in response.error) == (404, True)


def test_rejects_search_with_too_much_initial_memory(
    user: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A constant is a part of each trial: a short configuration with few slots would stand for gigabytes."""
    monkeypatch.setattr(live, "MOST_HPARAMS", 10_000)
    search = {"name": "random", "metric": "loss", "max_trials": 1000, "max_concurrent_trials": 0}
    hparams = {"constant": "x" * 1000}
    response = user.ask("POST", E, {"config": config_of(searcher=search, hyperparameters=hparams)})
    assert (response.status, "lower searcher.max_concurrent_trials" in response.error) == (
        400,
        True,
    )
    assert user.get(E)["experiments"] == []
    create(user, searcher={**search, "max_concurrent_trials": 5}, hyperparameters=hparams)


def test_invalid_constant_hyperparameters_end_the_experiment_in_error(
    api: Api, user: Caller
) -> None:
    experiment = create(user, activate=True, hyperparameters={"constant": 1})
    agent = PlayedAgent(api, "agent-1")
    agent.join()
    api.tick()
    (order,) = agent.poll()
    trial = trial_of(user, experiment)["id"]
    task = api.with_token(order["spec"]["session_token"])
    task.post(f"/api/v1/trials/{trial}/early_exit", {"reason": "EXITED_REASON_INVALID_HP"})
    agent.poll("terminated", exit_code=0)
    api.tick()
    assert user.get(f"{E}/{experiment}")["experiment"]["state"] == "STATE_ERROR"
    assert trial_of(user, experiment)["state"] == "STATE_ERROR"
