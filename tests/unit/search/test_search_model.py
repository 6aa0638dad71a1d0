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
from det_controlplane.core.search.observations import Observation, losses_at_last_rung
from det_controlplane.core.search.simulate import Simulation
from det_controlplane.core.search.surrogate import relative

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
            loss = distance(create.hparams, 0, 9)
            take(search.fold(Validated(request_id, {"loss": loss, "epochs": 9})))
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
    near, far = (model.weigh(model.predict([x])) for x in (0.4, 9.0))
    assert near.mean == pytest.approx(1.0, abs=1e-6)
    assert near.variance < 1e-6
    assert far.mean == pytest.approx(0.0, abs=1e-6)
    assert far.variance == pytest.approx(1.0)


def test_added_observation_gives_the_same_model_as_a_new_one() -> None:
    rng = random.Random(1)
    points = [[rng.random(), rng.random()] for _ in range(12)]
    values = [0.0, *(rng.gauss(0, 1) for _ in points[1:-1])]
    whole = GaussianProcess(points, [*values, sum(values) / len(values)], [0.5, 0.5], 0.01)
    grown = GaussianProcess(points[:-1], values, [0.5, 0.5], 0.01)
    grown.add(points[-1], sum(values) / len(values))
    at = [0.3, 0.7]
    assert grown.predict(at).mean == pytest.approx(whole.predict(at).mean)


def test_assumed_observations_change_variances_only() -> None:
    rng = random.Random(2)
    points = [[rng.random(), rng.random()] for _ in range(9)]
    values = [rng.gauss(0, 1) for _ in points]
    model = GaussianProcess(points, values, [0.5, 0.5], 0.01)
    places, added = [[0.2, 0.8], [0.5, 0.5]], [[0.3, 0.7], [0.6, 0.4]]
    earlier = [model.weigh(model.predict(place)) for place in places]
    for point in added:
        values.append(model.predict(point).mean)
        model.assume(point, earlier)
    whole = GaussianProcess([*points, *added], values, [0.5, 0.5], 0.01)
    for prediction, place in zip(earlier, places, strict=True):
        for later in (whole.weigh(whole.predict(place)), model.weigh(model.predict(place))):
            assert later.mean == pytest.approx(prediction.mean)
            assert later.variance == pytest.approx(prediction.variance)


def test_losses_are_distances_from_the_best_in_units_of_the_median() -> None:
    assert relative([3.0, math.inf, 1.0, 2.0, 1.5]) == [2.0, 6.0, 0.0, 1.0, 0.5]
    assert relative([math.inf, math.inf]) == [0.0, 0.0]


def test_losses_at_low_rungs_are_corrected_by_the_usual_change() -> None:
    results = [(rung, trial, loss) for trial in range(3) for rung, loss in ((0, 9.0), (1, 7.0))]
    window = [
        Observation(loss + trial, order, rung, f"t{trial}", [])
        for order, (rung, trial, loss) in enumerate([*results, (0, 5, 9.0)])
    ]
    assert losses_at_last_rung(window) == [7.0, 7.0, 8.0, 8.0, 9.0, 9.0, 12.0]
    assert losses_at_last_rung(window[2:]) == [10.0, 8.0, 11.0, 9.0, 14.0]  # two trials are too few


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
