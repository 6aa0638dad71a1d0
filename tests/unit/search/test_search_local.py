"""`local_asha` learns where it can, and keeps looking everywhere."""

from collections.abc import Mapping
from typing import Any

from det_controlplane.core.hparams import Categorical, Const, Double, Int, Log, Nested, Space
from det_controlplane.core.search import SimulatedTrial, simulate
from det_controlplane.core.search.rng import Rng
from det_controlplane.core.search.sampling import Sampler
from det_controlplane.core.search.unit_cube import decode, encode, leaves_of
from hypothesis import given
from hypothesis import strategies as st

SPACE: Space = {
    "kind": Categorical(("a", "b", "c")),
    "lr": Log(-5.0, 0.0, 10.0),
    "net": Nested({"depth": Int(1, 9), "drop": Double(0.0, 1.0), "fixed": Const("x")}),
}
SEARCHER: dict[str, Any] = {
    "name": "local_asha",
    "metric": "loss",
    "time_metric": "epochs",
    "max_time": 27,
    "divisor": 3,
    "max_trials": 300,
    "max_concurrent_trials": 8,
}


def distance(hparams: Mapping[str, Any], seed: int, length: float) -> float:
    gap = abs(hparams["net"]["drop"] - 0.3) + abs(hparams["lr"] - 0.01)
    return float(gap + (hparams["kind"] != "b") + 1 / length)


def trials(**fields: Any) -> list[SimulatedTrial]:
    return list(simulate({**SEARCHER, **fields}, SPACE, 1, distance).trials.values())


def test_later_trials_are_better_than_the_first() -> None:
    run = trials()
    early = sorted(distance(trial.create.hparams, 0, 27) for trial in run[:50])
    late = sorted(distance(trial.create.hparams, 0, 27) for trial in run[-50:])
    assert late[25] < early[25] / 2


def test_some_late_trials_still_sample_the_whole_space() -> None:
    late = trials()[-100:]
    assert {trial.create.hparams["kind"] for trial in late} == {"a", "b", "c"}


def test_first_proposals_equal_random_search() -> None:
    random = simulate({**SEARCHER, "name": "async_halving", "num_rungs": 4}, SPACE, 1, distance)
    first = [trial.create.hparams for trial in random.trials.values()][:8]
    assert [trial.create.hparams for trial in trials()[:8]] == first


def test_a_local_fraction_of_zero_is_independent_sampling() -> None:
    independent = trials(local_fraction=0.0, max_trials=60)
    learned = trials(local_fraction=1.0, max_trials=60)
    assert len({trial.create.hparams["lr"] for trial in independent}) == 60
    early, late = learned[:8], learned[-20:]
    parents = {trial.create.hparams["lr"] for trial in early}
    assert any(trial.create.hparams["lr"] in parents for trial in late), "coordinates are inherited"
    assert not any(trial.create.hparams["lr"] in parents for trial in independent[-20:])


def test_space_of_constants_can_be_searched() -> None:
    flat = {"lr": Const(0.1)}
    curve = simulate(SEARCHER, flat, 0, lambda hparams, seed, length: 1 / length)
    assert all(trial.create.hparams == {"lr": 0.1} for trial in curve.trials.values())


def test_every_proposal_is_within_the_space() -> None:
    for trial in trials(max_trials=500):
        hparams = trial.create.hparams
        assert 1e-5 <= hparams["lr"] <= 1
        assert 1 <= hparams["net"]["depth"] <= 9
        assert 0 <= hparams["net"]["drop"] <= 1
        assert hparams["net"]["fixed"] == "x"


@given(st.integers(0, 2**31 - 1))
def test_encoded_sample_is_decoded_to_the_same_values(seed: int) -> None:
    hparams, leaves = Sampler(SPACE, Rng(seed)).hparams(), leaves_of(SPACE)
    point = encode(leaves, hparams)
    back = decode(SPACE, leaves, point)
    assert all(0 <= x <= 1 for x in point)
    assert back["kind"] == hparams["kind"]
    assert back["net"]["depth"] == hparams["net"]["depth"]
    assert abs(back["lr"] / hparams["lr"] - 1) < 1e-9
