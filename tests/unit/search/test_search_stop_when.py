"""`searcher.stop_when` ends a search that is not worth its money: its trials stop with their checkpoints."""

import math
from collections.abc import Mapping
from typing import Any

import pytest
from det_controlplane.core.hparams import Double, Space
from det_controlplane.core.search import (
    CostExceeded,
    Create,
    EndReason,
    Exited,
    Park,
    Search,
    Shutdown,
    Started,
    Stop,
    Validated,
    event_from_json,
    new,
    restore,
    simulate,
)
from det_controlplane.core.search.expected_gain import GainWatch

SPACE: Space = {"x": Double(0.0, 1.0), "y": Double(0.0, 1.0)}
BASE: dict[str, Any] = {
    "metric": "loss",
    "divisor": 3,
    "max_trials": 400,
    "max_concurrent_trials": 4,
}
LENGTH = {**BASE, "name": "model_asha", "max_length": {"epochs": 27}}
TIME = {**BASE, "name": "model_asha", "time_metric": "epochs", "max_time": 27}
FORMS = pytest.mark.parametrize("searcher", [LENGTH, TIME], ids=["promotion", "stopping"])
RANDOM = {"name": "random", "metric": "loss", "max_trials": 9, "max_concurrent_trials": 3}


def bowl(hparams: Mapping[str, Any], seed: int, length: float) -> float:
    return float(10 * ((hparams["x"] - 0.3) ** 2 + (hparams["y"] - 0.6) ** 2) + 1 / length)


def ending(searcher: Mapping[str, Any], least_gain: float, **options: Any) -> Any:
    return simulate(
        {**searcher, "stop_when": {"expected_gain_below": least_gain}, **options}, SPACE, 1, bowl, 4
    )


@FORMS
def test_search_ends_when_its_expected_gain_is_small(searcher: Mapping[str, Any]) -> None:
    simulation = ending(searcher, 0.001)
    assert simulation.outcome == Shutdown()
    assert 30 < len(simulation.trials) < 200
    best = min(trial.metric for trial in simulation.trials.values() if trial.length == 27)
    assert best < 0.05 + 1 / 27
    assert all(trial.ended for trial in simulation.trials.values())


def test_expected_gain_learns_from_expectations_that_came_true() -> None:
    kept, broken = GainWatch(None), GainWatch(None)
    for trained in range(1, 21):
        kept.add(0.1, best=5.0 - 0.1 * trained, trained=trained, observations=trained)
        broken.add(0.1, best=5.0, trained=trained, observations=trained)
    assert kept.expected() == pytest.approx(0.1, rel=0.15)
    assert broken.expected() == pytest.approx(0.001, rel=0.5)


@FORMS
def test_smaller_limit_lets_a_search_run_longer(searcher: Mapping[str, Any]) -> None:
    assert ending(searcher, 1e-4).work > ending(searcher, 0.03).work


@FORMS
def test_without_a_limit_the_search_has_the_same_trials_until_its_end(
    searcher: Mapping[str, Any],
) -> None:
    limited, free = ending(searcher, 0.01), simulate(searcher, SPACE, 1, bowl, 4)
    assert len(free.trials) == 400
    assert list(limited.trials) == list(free.trials)[: len(limited.trials)]


def test_larger_metrics_end_a_search_alike() -> None:
    flipped = simulate(
        {**LENGTH, "smaller_is_better": False, "stop_when": {"expected_gain_below": 0.01}},
        SPACE,
        1,
        lambda *trial: -bowl(*trial),
        4,
    )
    assert len(flipped.trials) == len(ending(LENGTH, 0.01).trials)


@pytest.mark.parametrize("value", [1.0, math.nan])
def test_constant_metric_ends_a_search_and_a_missing_one_does_not(value: float) -> None:
    searcher = {**TIME, "max_trials": 60, "stop_when": {"expected_gain_below": 0.01}}
    simulation = simulate(searcher, SPACE, 1, lambda *trial: value, 4)
    assert (len(simulation.trials) < 60) == (value == 1.0)


def started(searcher: Mapping[str, Any]) -> tuple[Search, list[str]]:
    search = new(searcher, SPACE, 1)
    actions = search.fold(Started())
    return search, [action.request_id for action in actions if isinstance(action, Create)]


@pytest.mark.parametrize(
    "searcher", [LENGTH, TIME, RANDOM], ids=["promotion", "stopping", "random"]
)
def test_cost_above_the_limit_stops_all_trials(searcher: Mapping[str, Any]) -> None:
    search, trials = started(searcher)
    for request_id, loss in zip(trials[:2], (0.5, 0.6), strict=True):
        search.fold(Validated(request_id, {"loss": loss, "epochs": 3}))
    live = [request_id for request_id, status in search.snapshot()["live"].items() if status == 0]
    actions = search.fold(event_from_json(CostExceeded(12.5, 10.0).to_json()))
    assert actions == tuple(Stop(request_id, early=True) for request_id in live)
    assert search.fold(CostExceeded(13.0, 10.0)) == ()
    assert search.ending is not None
    assert search.ending.reason is EndReason.COST_ABOVE
    assert "cost of $12.50 exceeded" in search.ending.sentence("loss")
    last: tuple[Any, ...] = ()
    for request_id in search.snapshot()["live"]:
        assert last == ()
        last = search.fold(Exited(request_id))
    assert last == (Shutdown(),)


def test_ending_survives_a_snapshot() -> None:
    searcher = {**LENGTH, "stop_when": {"expected_gain_below": 0.01}}
    search, _ = started(searcher)
    search.fold(CostExceeded(12.5, 10.0))
    restored = restore(searcher, SPACE, 1, search.snapshot())
    assert restored.ending == search.ending


def test_snapshots_of_earlier_versions_can_be_restored() -> None:
    search, trials = started(LENGTH)
    search.fold(Validated(trials[0], {"loss": 0.5, "epochs": 3}))
    snapshot = search.snapshot()
    del snapshot["cost_ending"], snapshot["method"]["proposal"]["gain"]
    event = Validated(trials[1], {"loss": 0.4, "epochs": 3})
    assert restore(LENGTH, SPACE, 1, snapshot).fold(event) == search.fold(event)


def test_trial_that_arrives_after_the_end_is_stopped_and_does_not_wait() -> None:
    parked = 0

    search = new({**LENGTH, "stop_when": {"expected_gain_below": 0.01}}, SPACE, 1)
    live: dict[str, Mapping[str, Any]] = {}
    lengths: dict[str, int] = {}

    def take(actions: tuple[Any, ...]) -> None:
        nonlocal parked
        for action in actions:
            if isinstance(action, Create):
                live[action.request_id] = action.hparams
            if isinstance(action, Park) and search.ending:
                parked += 1
            if isinstance(action, Stop):
                live.pop(action.request_id, None)
                take(search.fold(Exited(action.request_id)))
            if hasattr(action, "length"):
                lengths[action.request_id] = action.length

    take(search.fold(Started()))
    while not search.over:
        request_id, length = lengths.popitem()
        loss = bowl(live[request_id], 0, length)
        take(search.fold(Validated(request_id, {"loss": loss, "epochs": length})))
    assert search.ending is not None
    assert search.ending.reason is EndReason.GAIN_BELOW
    assert not live
    assert parked <= 1  # the trial with the report that ended the search
