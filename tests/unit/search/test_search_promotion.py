"""ASHA that promotes, and population based training."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from det_controlplane.core.hparams import Categorical, Const, Int, Log, Space
from det_controlplane.core.search import (
    Action,
    Create,
    Exited,
    ExitedEarly,
    ExitReason,
    OperationCompleted,
    Park,
    Search,
    Shutdown,
    Started,
    Stop,
    TrainTo,
    Validated,
    new,
    simulate,
)
from det_controlplane.core.search.explore import Explorer
from det_controlplane.core.search.rng import Rng

SPACE: Space = {"lr": Log(-4.0, -1.0, 10.0)}
ASHA: dict[str, Any] = {
    "name": "async_halving",
    "metric": "loss",
    "max_length": {"batches": 9000},
    "num_rungs": 3,
    "divisor": 3,
    "max_trials": 12,
    "max_concurrent_trials": 3,
}
PBT: dict[str, Any] = {
    "name": "pbt",
    "metric": "loss",
    "population_size": 2,
    "num_rounds": 2,
    "length_per_round": {"batches": 200},
    "replace_function": {"truncate_fraction": 0.5},
    "explore_function": {"resample_probability": 0.0, "perturb_factor": 0.2},
}


def start(searcher: Mapping[str, Any]) -> tuple[Search, list[str]]:
    search = new(searcher, SPACE, 0)
    return search, created(search.fold(Started()))


def created(actions: tuple[Action, ...]) -> list[str]:
    return [action.request_id for action in actions if isinstance(action, Create)]


def constant(hparams: Mapping[str, Any], seed: int, length: float) -> float:
    return 1.0


def lengths(searcher: Mapping[str, Any]) -> dict[int, int]:
    simulation = simulate(searcher, SPACE, 0, constant)
    assert simulation.outcome == Shutdown()
    counts = Counter(int(trial.length) for trial in simulation.trials.values())
    return dict(sorted(counts.items()))


def test_a_third_of_each_rung_is_promoted() -> None:
    assert lengths({**ASHA, "max_concurrent_trials": 16}) == {1000: 8, 3000: 3, 9000: 1}
    assert lengths({**ASHA, "max_concurrent_trials": 1}) == {1000: 8, 3000: 3, 9000: 1}


def test_adaptive_asha_promotes_in_every_bracket() -> None:
    fields = {"name": "adaptive_asha", "max_length": {"batches": 900}, "max_trials": 5}
    assert lengths({**ASHA, **fields, "max_rungs": 2, "num_rungs": None}) == {300: 2, 900: 3}


def test_a_trial_parks_at_its_rung_and_another_takes_its_slots() -> None:
    search, (one, *_) = start(ASHA)
    park, create, train = search.fold(OperationCompleted(one, 1000, 0.5))
    assert park == Park(one)
    assert isinstance(create, Create)
    assert train == TrainTo(create.request_id, 1000)


def test_best_waiting_trial_is_promoted_when_possible() -> None:
    search, (one, two, three) = start(ASHA)
    search.fold(OperationCompleted(one, 1000, 0.5))
    search.fold(OperationCompleted(two, 1000, 0.3))
    actions = search.fold(OperationCompleted(three, 1000, 0.9))
    assert actions == (Park(three), TrainTo(two, 3000))


def test_best_trial_continues_without_parking() -> None:
    search, (one, two, three) = start(ASHA)
    search.fold(OperationCompleted(one, 1000, 0.5))
    search.fold(OperationCompleted(two, 1000, 0.6))
    assert search.fold(OperationCompleted(three, 1000, 0.1)) == (TrainTo(three, 3000),)


def test_earlier_of_equal_trials_is_promoted() -> None:
    search, (one, two, three) = start(ASHA)
    for trial in (one, two):
        search.fold(OperationCompleted(trial, 1000, 0.5))
    actions = search.fold(OperationCompleted(three, 1000, 0.5))
    assert actions == (Park(three), TrainTo(one, 3000))


def test_reports_before_the_rung_and_of_parked_trials_are_ignored() -> None:
    search, (one, *_) = start(ASHA)
    assert search.fold(OperationCompleted(one, 999, 0.5)) == ()
    assert search.fold(OperationCompleted(one, 1000, 0.5)) != ()
    assert search.fold(OperationCompleted(one, 1000, 0.5)) == ()


def test_validation_with_the_unit_completes_an_operation() -> None:
    search, (one, *_) = start(ASHA)
    assert search.fold(Validated(one, {"loss": 0.5})) == ()
    assert search.fold(Validated(one, {"loss": 0.5, "batches": 500})) == ()
    assert search.fold(Validated(one, {"loss": 0.5, "batches": 1000}))[0] == Park(one)


def test_waiting_trials_are_stopped_when_no_more_can_arrive() -> None:
    search, (one, two, three) = start({**ASHA, "max_trials": 3})
    search.fold(OperationCompleted(one, 1000, 0.5))
    search.fold(OperationCompleted(two, 1000, 0.3))
    actions = search.fold(OperationCompleted(three, 1000, 0.9))
    assert actions == (
        Park(three),
        TrainTo(two, 3000),
        Stop(one, early=True),
        Stop(three, early=True),
    )


def test_failed_trial_counts_as_the_worst_and_allows_promotions() -> None:
    search, (one, two, three) = start(ASHA)
    search.fold(OperationCompleted(one, 1000, 0.5))
    search.fold(OperationCompleted(two, 1000, 0.3))
    assert search.fold(ExitedEarly(three, ExitReason.ERRORED)) == (TrainTo(two, 3000),)


def test_a_parked_trial_that_is_killed_is_never_promoted() -> None:
    search, (one, two, three) = start(ASHA)
    search.fold(OperationCompleted(one, 1000, 0.5))
    search.fold(OperationCompleted(two, 1000, 0.3))
    assert search.fold(ExitedEarly(two, ExitReason.USER_CANCELED)) == ()
    actions = search.fold(OperationCompleted(three, 1000, 0.9))
    assert actions == (Park(three), TrainTo(one, 3000))


def test_pbt_has_the_published_sequence() -> None:
    search, (one, two) = start(PBT)
    assert search.fold(OperationCompleted(two, 200, 0.9)) == (Park(two),)
    actions = search.fold(OperationCompleted(one, 200, 0.1))
    copy = actions[3]
    assert isinstance(copy, Create)
    assert actions == (
        Park(one),
        Stop(two, early=True),
        TrainTo(one, 400),
        copy,
        TrainTo(copy.request_id, 200),
    )
    assert copy.warm_start_from == one
    search.fold(Exited(two))
    assert search.fold(OperationCompleted(one, 400, 0.1)) == (Park(one),)
    actions = search.fold(OperationCompleted(copy.request_id, 200, 0.2))
    assert actions[1:] == (Stop(one), Stop(copy.request_id))
    search.fold(Exited(one))
    assert search.fold(Exited(copy.request_id)) == (Shutdown(),)


def test_pbt_replaces_a_failed_trial_instead_of_the_worst() -> None:
    search, (one, two, three) = start({**PBT, "population_size": 3})
    search.fold(ExitedEarly(two, ExitReason.ERRORED))
    search.fold(OperationCompleted(one, 200, 0.9))
    actions = search.fold(OperationCompleted(three, 200, 0.1))
    assert not any(isinstance(action, Stop) for action in actions)
    assert len(created(actions)) == 1


@pytest.mark.parametrize("seed", range(20))
def test_exploring_perturbs_by_the_factor_within_bounds(seed: int) -> None:
    space: Space = {
        "depth": Int(1, 10),
        "kind": Categorical(("a", "b")),
        "lr": Log(-3.0, -1.0, 10.0),
        "top": Log(-3.0, -1.0, 10.0),
        "version": Const(3),
    }
    parent = {"depth": 4, "kind": "a", "lr": 0.01, "top": 0.1, "version": 3}
    child = Explorer(space, Rng(seed), 0.0, 0.2).explore(parent)
    assert child["depth"] in (3, 5)
    assert child["kind"] == "a"
    assert child["lr"] in (pytest.approx(0.008), pytest.approx(0.012))
    assert child["top"] in (pytest.approx(0.08), pytest.approx(0.1))
    assert child["version"] == 3


def test_exploring_resamples_with_the_probability() -> None:
    space: Space = {"kind": Categorical(tuple(range(1000)))}
    explorer = Explorer(space, Rng(0), 1.0, 0.2)
    assert len({explorer.explore({"kind": 0})["kind"] for _ in range(50)}) > 40
