"""The searcher section, one search method after the other."""

from typing import Any

import pytest
from det_controlplane.core.config import ExperimentConfig, InvalidConfig, Sources, resolve

SOURCES = Sources(cluster_storage={"type": "shared_fs", "host_path": "/c"})
LR = {"lr": {"type": "double", "minval": 0, "maxval": 1, "count": 3}}


def config(
    searcher: dict[str, Any], hyperparameters: dict[str, Any] | None = None
) -> ExperimentConfig:
    raw = {"entrypoint": "x", "searcher": {"metric": "loss", **searcher}}
    raw["hyperparameters"] = LR if hyperparameters is None else hyperparameters
    return resolve(raw, SOURCES, name="n", seed=1).config


def problems(searcher: dict[str, Any], **hyperparameters: Any) -> dict[str, str]:
    with pytest.raises(InvalidConfig) as error:
        config(searcher, hyperparameters or None)
    return {problem.path: problem.message for problem in error.value.problems}


COMMON = {
    "metric": "loss",
    "smaller_is_better": True,
    "source_trial_id": None,
    "source_checkpoint_uuid": None,
}
HALVING = {
    "max_trials": 8,
    "max_concurrent_trials": 16,
    "divisor": 4,
    "time_metric": "t",
    "max_time": 9,
}
HALVING |= {"max_length": None, "stop_once": None}
STOPPING = {"max_trials": 8, "time_metric": "t", "max_time": 9}


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"name": "single"}, {"max_length": None}),
        (
            {"name": "random", "max_trials": 3},
            {"max_trials": 3, "max_concurrent_trials": 16, "max_length": None},
        ),
        ({"name": "grid"}, {"max_concurrent_trials": 16, "max_length": None}),
        ({"name": "async_halving", "num_rungs": 3, **STOPPING}, {**HALVING, "num_rungs": 3}),
        (
            {"name": "adaptive_asha", **STOPPING},
            {**HALVING, "mode": "standard", "max_rungs": 5, "bracket_rungs": []},
        ),
        (
            {"name": "local_asha", **STOPPING},
            {**HALVING, "num_rungs": None, "max_rungs": 5, "local_fraction": 0.7},
        ),
        (
            {"name": "model_asha", **STOPPING},
            {**HALVING, "num_rungs": None, "max_rungs": 2},
        ),
        (
            {
                "name": "pbt",
                "population_size": 4,
                "num_rounds": 3,
                "length_per_round": {"epochs": 1},
            },
            {
                "population_size": 4,
                "num_rounds": 3,
                "length_per_round": {"epochs": 1},
                "time_metric": None,
                "time_per_round": None,
                "replace_function": {"truncate_fraction": 0.2},
                "explore_function": {"resample_probability": 0.2, "perturb_factor": 0.2},
            },
        ),
        ({"name": "custom", "unit": "batches"}, {"unit": "batches"}),
    ],
)
def test_every_search_method_shows_its_defaults(
    given: dict[str, Any], shown: dict[str, Any]
) -> None:
    resolved = config(given)
    ends = {} if given["name"] in ("single", "pbt", "custom") else {"stop_when": None}
    assert resolved.to_json()["searcher"] == COMMON | {"name": given["name"]} | shown | ends
    assert resolved.searcher.type == given["name"]


@pytest.mark.parametrize(
    ("given", "path", "said"),
    [
        ({"name": "random"}, "searcher.max_trials", "is required"),
        ({"name": "random", "max_trials": 0}, "searcher.max_trials", "at least 1"),
        ({"name": "random", "max_trials": 10**7}, "searcher.max_trials", "at most"),
        ({"name": "single", "max_trials": 2}, "searcher.max_trials", "is unknown"),
        ({"name": "single", "max_length": 0}, "searcher.max_length", "at least 1"),
        (
            {"name": "single", "max_length": {"steps": 3}},
            "searcher.max_length",
            "batches, records, epochs",
        ),
        ({"name": "single", "metric": ""}, "searcher.metric", "must not be empty"),
        ({"name": "async_halving", **STOPPING}, "searcher.num_rungs", "is required"),
        (
            {"name": "async_halving", "max_trials": 8, "num_rungs": 2},
            "searcher.time_metric",
            "or give max_length",
        ),
        (
            {"name": "adaptive_asha", "max_trials": 8, "max_time": 3},
            "searcher.time_metric",
            "go together",
        ),
        (
            {"name": "adaptive_asha", "max_trials": 8, "time_metric": "t"},
            "searcher.max_time",
            "go together",
        ),
        ({"name": "adaptive_asha", **STOPPING, "max_time": 0}, "searcher.max_time", "at least 1"),
        ({"name": "adaptive_asha", **STOPPING, "divisor": 1}, "searcher.divisor", "greater than 1"),
        (
            {"name": "adaptive_asha", **STOPPING, "max_rungs": 99},
            "searcher.max_rungs",
            "at most 50",
        ),
        ({"name": "adaptive_asha", **STOPPING, "mode": "wild"}, "searcher.mode", "'aggressive'"),
        (
            {"name": "adaptive_asha", **STOPPING, "bracket_rungs": [0]},
            "searcher.bracket_rungs[0]",
            "at least 1",
        ),
        (
            {"name": "local_asha", **STOPPING, "local_fraction": 2},
            "searcher.local_fraction",
            "at most 1",
        ),
        (
            {"name": "pbt", "population_size": 2, "num_rounds": 1},
            "searcher.length_per_round",
            "how long a round",
        ),
        (
            {"name": "pbt", "population_size": 2, "num_rounds": 1, "time_metric": "t"},
            "searcher.time_per_round",
            "go together",
        ),
        (
            {
                "name": "pbt",
                "population_size": 2,
                "num_rounds": 1,
                "length_per_round": 1,
                "replace_function": {"truncate_fraction": 0.6},
            },
            "searcher.replace_function.truncate_fraction",
            "at most 0.5",
        ),
        (
            {"name": "single", "source_trial_id": 1, "source_checkpoint_uuid": "u"},
            "searcher.source_checkpoint_uuid",
            "cannot be given together",
        ),
    ],
)
def test_rejects_wrong_searcher(given: dict[str, Any], path: str, said: str) -> None:
    assert said in problems(given)[path]


def test_rejects_grid_over_a_range_without_a_count() -> None:
    lr = {"type": "double", "minval": 0, "maxval": 1}
    assert "needs 'count'" in problems({"name": "grid"}, opt={"lr": lr})["hyperparameters.opt.lr"]


def test_rejects_grid_that_is_too_large() -> None:
    axes = {f"a{n}": {"type": "double", "minval": 0, "maxval": 1, "count": 100} for n in range(4)}
    assert "100000000 points" in problems({"name": "grid"}, **axes)["hyperparameters"]


def test_search_space_has_the_users_order() -> None:
    space = config(
        {"name": "single"}, {"b": 1, "a": {"type": "categorical", "vals": [1]}}
    ).hparam_space()
    assert list(space) == ["b", "a"]


def test_rejects_source_checkpoint_that_is_not_a_uuid() -> None:
    problems_by_path = problems({"name": "single", "source_checkpoint_uuid": "best"})
    message = "must be the UUID of a checkpoint, not 'best'"
    assert problems_by_path == {"searcher.source_checkpoint_uuid": message}


def test_search_may_end_when_its_gain_is_small_or_its_cost_is_high() -> None:
    stop_when = {"expected_gain_below": 0.001, "or_cost_above": 20}
    searcher = config({"name": "model_asha", **STOPPING, "stop_when": stop_when}).searcher
    assert searcher.model_dump()["stop_when"] == {
        "expected_gain_below": 0.001,
        "or_cost_above": 20.0,
    }


@pytest.mark.parametrize(
    "searcher",
    [
        {"name": "random", "max_trials": 4},
        {"name": "grid"},
        {"name": "adaptive_asha", **STOPPING},
        {"name": "local_asha", **STOPPING},
    ],
)
def test_search_without_a_model_may_end_by_its_cost_only(searcher: dict[str, Any]) -> None:
    assert config({**searcher, "stop_when": {"or_cost_above": 20}})
    refused = problems({**searcher, "stop_when": {"expected_gain_below": 0.1}})
    assert list(refused) == ["searcher.stop_when.expected_gain_below"]
    assert "use model_asha, or or_cost_above alone" in next(iter(refused.values()))


@pytest.mark.parametrize(
    ("stop_when", "path"),
    [
        ({}, "searcher.stop_when"),
        ({"or_cost_above": 0}, "searcher.stop_when.or_cost_above"),
        ({"or_cost_above": float("inf")}, "searcher.stop_when.or_cost_above"),
        ({"expected_gain_below": -1}, "searcher.stop_when.expected_gain_below"),
        ({"gain": 1}, "searcher.stop_when.gain"),
    ],
)
def test_wrong_condition_is_refused(stop_when: dict[str, Any], path: str) -> None:
    assert path in problems({"name": "model_asha", **STOPPING, "stop_when": stop_when})


@pytest.mark.parametrize("name", ["single", "custom"])
def test_search_that_cannot_end_early_refuses_the_key(name: str) -> None:
    assert "searcher.stop_when" in problems({"name": name, "stop_when": {"or_cost_above": 1}})
