"""The preview, and the simulation."""

from collections import Counter
from typing import Any

import pytest
from det_controlplane.core.hparams import Int, Log, Space
from det_controlplane.core.search import SearchFailed, Shutdown, preview, simulate

SPACE: Space = {"lr": Log(-4.0, -1.0, 10.0, count=3), "n": Int(1, 4, count=4)}
ADAPTIVE = {"name": "adaptive_asha", "metric": "loss", "time_metric": "batches", "divisor": 3}


def told(**searcher: Any) -> list[dict[str, Any]]:
    return [trials.to_json() for trials in preview(searcher, SPACE)]


@pytest.mark.parametrize(
    ("searcher", "count"),
    [({"name": "single"}, 1), ({"name": "random", "max_trials": 7}, 7), ({"name": "grid"}, 12)],
)
def test_trials_without_a_length_are_one_entry(searcher: dict[str, Any], count: int) -> None:
    assert told(**searcher) == [{"count": count, "unit": {"maxLength": True}}]


def test_preview_of_adaptive_asha_has_an_entry_for_each_rung() -> None:
    assert [
        (entry["count"], entry["unit"]["value"])
        for entry in told(**ADAPTIVE, max_time=900, max_trials=10)
    ] == [(5, 100), (3, 300), (2, 900)]
    assert told(**ADAPTIVE, max_time=900, max_trials=10)[0]["unit"]["name"] == "batches"


@pytest.mark.parametrize("name", ["async_halving", "local_asha", "model_asha"])
def test_preview_of_one_bracket_is_equal_for_both_length_forms(name: str) -> None:
    searcher = {"name": name, "num_rungs": 3, "max_trials": 9, "divisor": 3}
    rungs = [(6, 100), (2, 300), (1, 900)]
    for length in ({"time_metric": "batches", "max_time": 900}, {"max_length": {"batches": 900}}):
        units = told(**searcher, **length)
        assert [(entry["count"], entry["unit"]["value"]) for entry in units] == rungs
        assert units[0]["unit"]["name"] == "batches"


def test_preview_omits_impossible_promotions() -> None:
    searcher = {**ADAPTIVE, "divisor": 2, "max_trials": 8, "smaller_is_better": True}
    del searcher["time_metric"]
    searcher["max_length"] = {"batches": 200}
    counts = {entry["unit"]["value"]: entry["count"] for entry in told(**searcher)}
    result = simulate(searcher, SPACE, seed=3).trials.values()
    assert counts == Counter(int(trial.length) for trial in result)
    assert max(counts) < 200, "its brackets have too few trials for one to come so far"


def test_preview_of_pbt_has_an_entry_for_each_population() -> None:
    units = told(
        name="pbt", metric="loss", population_size=10, num_rounds=3, length_per_round={"epochs": 4}
    )
    # Two of ten are replaced after each round but the last.
    assert sum(entry["count"] for entry in units) == 14
    assert sum(entry["count"] * entry["unit"]["value"] for entry in units) == 10 * 3 * 4
    assert {entry["unit"]["name"] for entry in units} == {"epochs"}


def test_impossible_preview_has_an_error_with_the_reason() -> None:
    with pytest.raises(SearchFailed, match="decided by a program of yours"):
        preview({"name": "custom"}, SPACE)
    huge = {"name": "pbt", "metric": "loss", "population_size": 10_000, "num_rounds": 10_000}
    with pytest.raises(SearchFailed, match="population_size times num_rounds is 100000000"):
        preview(huge | {"length_per_round": {"epochs": 4}}, SPACE)


def test_simulation_ends_with_the_search_and_counts_the_training() -> None:
    searcher = {**ADAPTIVE, "max_time": 900, "max_trials": 10}
    simulation = simulate(searcher, SPACE, 0)
    trials = simulation.trials.values()
    assert simulation.outcome == Shutdown()
    assert len(trials) == 10
    assert simulation.work == sum(trial.length for trial in trials)
    assert {trial.ended for trial in trials} == {"stopped"}


def test_fewer_slots_take_longer_for_the_same_training() -> None:
    searcher = {"name": "random", "metric": "loss", "max_trials": 8, "max_length": {"batches": 10}}
    wide, narrow = simulate(searcher, SPACE, 0), simulate(searcher, SPACE, 0, slots=2)
    assert (wide.elapsed, narrow.elapsed) == (10, 40)
    assert wide.work == narrow.work == 80


def test_a_simulation_stops_at_its_budget() -> None:
    searcher = {"name": "random", "metric": "loss", "max_trials": 8, "max_length": {"batches": 10}}
    assert simulate(searcher, SPACE, 0, slots=1, budget=30).work == 30


def test_a_copied_trial_inherits_its_parents_training() -> None:
    searcher = {
        "name": "pbt",
        "metric": "loss",
        "population_size": 4,
        "num_rounds": 3,
        "time_metric": "batches",
        "time_per_round": 10,
    }
    searcher["replace_function"] = {"truncate_fraction": 0.5}
    trials = simulate(searcher, SPACE, 0).trials.values()
    assert {trial.inherited + trial.length for trial in trials if trial.create.warm_start_from} <= {
        20,
        30,
    }
    assert sum(trial.inherited + trial.length == 30 for trial in trials) == 4
