"""The importance of hyperparameters: which of them separate the best trials from the others."""

import math
import random
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from det_controlplane.core.search.importance import CLEAR_FROM, ScoredTrial, importances


def trials_of(
    loss: Callable[[Mapping[str, Any]], float], count: int, seed: int = 1
) -> list[ScoredTrial]:
    rng = random.Random(seed)
    trials = []
    for _ in range(count):
        hparams = {
            "lr": 10 ** rng.uniform(-5, 0),
            "net": {"drop": rng.random(), "depth": rng.randint(1, 9)},
            "kind": rng.choice(["a", "b", "c"]),
            "fixed": 3,
        }
        trials.append(ScoredTrial(hparams, loss(hparams)))
    return trials


def shares(trials: list[ScoredTrial]) -> dict[str, float]:
    return {entry.name: entry.share for entry in importances(trials).of}


@pytest.mark.parametrize("seed", range(5))
def test_effect_with_its_best_value_in_the_middle_is_important(seed: int) -> None:
    """A correlation of ranks saw nothing here."""
    found = shares(trials_of(lambda h: abs(math.log10(h["lr"]) + 2.5), 200, seed))
    assert found["lr"] > 0.9


@pytest.mark.parametrize("seed", range(5))
def test_effect_of_two_good_ends_is_important(seed: int) -> None:
    found = shares(trials_of(lambda h: -abs(h["net"]["drop"] - 0.5), 200, seed))
    assert found["net.drop"] > 0.85


def test_effect_that_rises_is_important() -> None:
    assert shares(trials_of(lambda h: h["net"]["drop"], 200))["net.drop"] > 0.9


def test_effect_of_a_category_is_important() -> None:
    found = shares(trials_of(lambda h: (h["kind"] != "b") + random.Random(h["lr"]).random(), 200))
    assert found["kind"] > 0.9


def test_stronger_effect_is_more_important() -> None:
    found = shares(
        trials_of(lambda h: 3 * abs(math.log10(h["lr"]) + 2.5) + abs(h["net"]["drop"] - 0.5), 1000)
    )
    assert found["lr"] > 2 * found["net.drop"] > 0


def test_noise_has_no_important_hyperparameter() -> None:
    zeros = 0
    for seed in range(20):
        found = shares(trials_of(lambda h: random.Random(h["lr"]).random(), 200, seed))
        zeros += sum(found.values()) == 0
    assert zeros >= 14


def test_constants_are_not_listed_and_nested_names_have_dots() -> None:
    found = shares(trials_of(lambda h: h["lr"], 20))
    assert set(found) == {"lr", "net.drop", "net.depth", "kind"}


@pytest.mark.parametrize("loss", [1.0, math.nan, math.inf])
def test_equal_or_missing_metrics_make_nothing_important(loss: float) -> None:
    assert sum(shares(trials_of(lambda h: loss, 50)).values()) == 0


def test_few_trials_make_nothing_important() -> None:
    result = importances(trials_of(lambda h: h["lr"], 9))
    assert result.best == 0
    assert {entry.share for entry in result.of} == {0.0}


def test_perfect_split_of_a_number_is_clear_from_16_trials_on() -> None:
    for count in (CLEAR_FROM - 1, CLEAR_FROM):
        split = importances([ScoredTrial({"x": i}, i) for i in range(count)])
        assert (split.of[0].share > 0) == (count == CLEAR_FROM)


def test_conditional_hyperparameters_count_with_their_missing_values() -> None:
    """A categorical hyperparameter may have mappings as values, so its parts exist in some trials only."""
    rng = random.Random(1)
    optimizers: list[Any] = [{"name": "adam", "beta": 0.9}, {"name": "sgd"}, "none"]
    trials = []
    for _ in range(100):
        optimizer = rng.choice(optimizers)
        trials.append(ScoredTrial({"optimizer": optimizer}, rng.random() + (optimizer == "none")))
    found = shares(trials)
    assert set(found) == {"optimizer", "optimizer.name", "optimizer.beta"}
    assert found["optimizer"] > 0


def test_missing_and_mixed_values_are_no_error() -> None:
    values = [1, 2.5, "x", None, True, [1, 2], {"a": {}}, math.nan]
    trials = [ScoredTrial({"v": values[i % 8], "w": i} if i % 3 else {}, i) for i in range(100)]
    assert shares(trials)["w"] > 0.2


def test_thousand_trials_take_at_most_200_ms() -> None:
    trials = trials_of(lambda h: h["lr"], 1000)
    best = math.inf
    for _ in range(5):
        start = time.process_time()
        importances(trials)
        best = min(best, time.process_time() - start)
    assert best < 0.2
