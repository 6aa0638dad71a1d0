"""`model_asha` learns from few trials, in every kind of space."""

import math
import random
from collections.abc import Mapping
from typing import Any

import pytest
from det_controlplane.core.hparams import Categorical, Const, Double, Int, Log, Nested, Space
from det_controlplane.core.search import (
    Create,
    Exited,
    ExitedEarly,
    ExitReason,
    Started,
    Validated,
    new,
    simulate,
)
from det_controlplane.core.search.gaussian_process import GaussianProcess
from det_controlplane.core.search.simulate import Simulation
from det_controlplane.core.search.surrogate import standardise

SPACE: Space = {
    "kind": Categorical(("a", "b", "c")),
    "lr": Log(-5.0, 0.0, 10.0),
    "net": Nested({"depth": Int(1, 9), "drop": Double(0.0, 1.0), "fixed": Const("x")}),
}
SEARCHER: dict[str, Any] = {
    "name": "model_asha",
    "metric": "loss",
    "max_length": {"epochs": 27},
    "divisor": 3,
    "max_trials": 100,
    "max_concurrent_trials": 4,
}


def distance(hparams: Mapping[str, Any], seed: int, length: float) -> float:
    net = hparams["net"]
    gap = abs(net["drop"] - 0.3) + abs(math.log10(hparams["lr"]) + 2) + abs(net["depth"] - 6) / 9
    return float(gap + (hparams["kind"] != "b") + 1 / length)


def best(simulation: Simulation) -> float:
    """Return how far the best full training is from the optimum."""
    full = [trial for trial in simulation.trials.values() if trial.length == 27]
    return min(distance(trial.create.hparams, 0, math.inf) for trial in full)


def test_best_trials_are_far_better_than_those_of_local_asha() -> None:
    ours, local = (
        sum(
            best(
                simulate(
                    {**SEARCHER, "name": name, "max_trials": 200, "num_rungs": 3},
                    SPACE,
                    seed,
                    distance,
                )
            )
            for seed in range(6)
        )
        for name in ("model_asha", "local_asha")
    )
    assert ours < local / 2


def test_larger_metrics_are_better_if_the_configuration_says_so() -> None:
    flipped = simulate(
        {**SEARCHER, "smaller_is_better": False}, SPACE, 1, lambda *trial: -distance(*trial)
    )
    same = simulate(SEARCHER, SPACE, 1, distance)
    assert [t.create.hparams for t in flipped.trials.values()] == [
        t.create.hparams for t in same.trials.values()
    ]


def test_stopping_form_learns_too() -> None:
    stopping = {**SEARCHER, "max_length": None, "time_metric": "epochs", "max_time": 27}
    run = list(simulate(stopping, SPACE, 1, distance).trials.values())
    early, late = (
        [distance(t.create.hparams, 0, 27) for t in part] for part in (run[:20], run[-20:])
    )
    assert sorted(late)[10] < sorted(early)[10] / 2


def test_trials_that_fail_are_avoided() -> None:
    searcher = {**SEARCHER, "max_trials": 60}
    search, live = new(searcher, SPACE, 3), dict[str, Create]()
    failed: list[bool] = []

    def take(actions: tuple[Any, ...]) -> None:
        live.update((a.request_id, a) for a in actions if isinstance(a, Create))

    take(search.fold(Started()))
    while live:
        request_id, create = live.popitem()
        failed.append(create.hparams["net"]["drop"] < 0.4)  # at the optimum, too
        if failed[-1]:
            take(search.fold(ExitedEarly(request_id, ExitReason.ERRORED)))
        else:
            loss = distance(create.hparams, 0, 3)
            take(search.fold(Validated(request_id, {"loss": loss, "epochs": 3})))
        take(search.fold(Exited(request_id)))
    assert sum(failed[-20:]) < 8


def test_equal_losses_are_no_error() -> None:
    assert len(simulate(SEARCHER, SPACE, 0, lambda *trial: 1.0).trials) == 100


def test_every_proposal_is_within_the_space() -> None:
    for trial in simulate(SEARCHER, SPACE, 5, distance).trials.values():
        hparams = trial.create.hparams
        assert 1e-5 <= hparams["lr"] <= 1
        assert 1 <= hparams["net"]["depth"] <= 9
        assert 0 <= hparams["net"]["drop"] <= 1
        assert hparams["net"]["fixed"] == "x"


def test_space_of_constants_can_be_searched() -> None:
    curve = simulate(SEARCHER, {"lr": Const(0.1)}, 0, lambda hparams, seed, length: 1 / length)
    assert all(trial.create.hparams == {"lr": 0.1} for trial in curve.trials.values())


def test_prediction_equals_the_observation_at_its_point_and_the_mean_far_away() -> None:
    model = GaussianProcess([[0.1], [0.4]], [-1.0, 1.0], [0.2], 1e-9)
    near, far = model.covariances([0.4]), model.covariances([9.0])
    assert model.mean(near) == pytest.approx(1.0, abs=1e-6)
    assert model.variance(near) < 1e-6 < model.variance(far)
    assert model.mean(far) == pytest.approx(0.0, abs=1e-6)


def test_added_observation_gives_the_same_model_as_a_new_one() -> None:
    rng = random.Random(1)
    points = [[rng.random(), rng.random()] for _ in range(12)]
    values = [0.0, *(rng.gauss(0, 1) for _ in points[1:-1])]
    whole = GaussianProcess(points, [*values, sum(values) / len(values)], [0.5, 0.5], 0.01)
    grown = GaussianProcess(points[:-1], values, [0.5, 0.5], 0.01)
    grown.add(points[-1], sum(values) / len(values))
    at = [0.3, 0.7]
    assert grown.mean(grown.covariances(at)) == pytest.approx(whole.mean(whole.covariances(at)))


def test_standardised_losses_keep_their_order_and_have_no_infinity() -> None:
    values = standardise([3.0, math.inf, 1.0, 2.0, 1.5])
    assert sorted(values) == [values[2], values[4], values[3], values[0], values[1]]
    assert all(map(math.isfinite, values))
    assert sum(values) == pytest.approx(0)


CATEGORIES: Space = {f"c{index}": Categorical(tuple("abcde")) for index in range(5)}


def steps(hparams: Mapping[str, Any], seed: int, length: float) -> float:
    """Return how far each category is from its best value."""
    places = ["abcde".index(hparams[f"c{index}"]) for index in range(5)]
    return sum((place - index) % 5 for index, place in enumerate(places)) / 5 + 1 / length


def test_categories_are_searched_without_repeating_known_trials() -> None:
    """Most variations of a good trial were the trial itself, so the search stayed far from the best combination."""
    for seed in range(3):
        trials = simulate(SEARCHER, CATEGORIES, seed, steps, 4).trials.values()
        assert min(steps(trial.create.hparams, 0, math.inf) for trial in trials) <= 0.2
        different = {tuple(trial.create.hparams.values()) for trial in trials}
        assert len(different) > 0.75 * len(trials)
