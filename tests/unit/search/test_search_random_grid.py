"""Which trials `single`, `random` and `grid` create."""

from collections.abc import Mapping
from typing import Any

import pytest
from det_controlplane.core.hparams import Categorical, Const, Double, Int, Log, Nested, Space
from det_controlplane.core.search import (
    Action,
    Create,
    Exited,
    ExitedEarly,
    ExitReason,
    Fail,
    Search,
    SearchFailed,
    Shutdown,
    Started,
    TrainTo,
    Validated,
    new,
)
from det_controlplane.core.search.explore import Explorer
from det_controlplane.core.search.grid import grid_size
from det_controlplane.core.search.method import MOST_AT_ONCE
from det_controlplane.core.search.rng import Rng

SPACE: Space = {"lr": Log(-4.0, -1.0, 10.0)}


def searcher(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "metric": "loss", **fields}


def creates(actions: tuple[Action, ...]) -> list[Create]:
    return [action for action in actions if isinstance(action, Create)]


def started(name: str, space: Space = SPACE, **fields: Any) -> tuple[Search, list[Create]]:
    search = new(searcher(name, **fields), space, 0)
    return search, creates(search.fold(Started()))


def test_single_runs_one_trial_and_shuts_down() -> None:
    search, (trial,) = started("single")
    assert search.fold(Exited(trial.request_id)) == (Shutdown(),)


def test_single_replaces_a_trial_with_invalid_hyperparameters() -> None:
    search, (trial,) = started("single")
    assert search.fold(ExitedEarly(trial.request_id, ExitReason.INVALID_HP)) == ()
    assert len(creates(search.fold(Exited(trial.request_id)))) == 1


@pytest.mark.parametrize(
    "space", [{}, {"lr": Const(0.1), "net": Nested({"act": Categorical(("relu",))})}]
)
@pytest.mark.parametrize("name", ["single", "random"])
def test_invalid_constant_hyperparameters_fail_the_search(name: str, space: Space) -> None:
    search, trials = started(name, space, max_trials=3, max_concurrent_trials=1)
    (exit_event,) = search.fold(ExitedEarly(trials[0].request_id, ExitReason.INVALID_HP))
    assert isinstance(exit_event, Fail)
    assert "every trial of this search has the same ones" in exit_event.reason
    assert search.over


def test_grid_continues_after_many_invalid_points() -> None:
    search, trials = started("grid", {"n": Int(1, 200, count=200)}, max_concurrent_trials=0)
    for trial in trials[:-1]:
        assert search.fold(ExitedEarly(trial.request_id, ExitReason.INVALID_HP)) == ()
        search.fold(Exited(trial.request_id))
    assert search.fold(Exited(trials[-1].request_id)) == (Shutdown(),)


@pytest.mark.parametrize(("at_once", "first"), [(0, 40), (5, 5), (50, 40), (None, 16)])
def test_random_starts_max_concurrent_trials(at_once: int | None, first: int) -> None:
    _, trials = started("random", max_trials=40, max_concurrent_trials=at_once)
    assert len(trials) == first


@pytest.mark.parametrize("at_once", [0, 1_000_000])
@pytest.mark.parametrize("name", ["random", "grid", "async_halving", "adaptive_asha"])
def test_a_search_begins_with_as_many_trials_as_one_transaction_creates(
    name: str, at_once: int
) -> None:
    space: Space = {"lr": Int(1, 50_000, 50_000)}
    asha = {"time_metric": "batches", "max_time": 4**20, "num_rungs": 20, "max_rungs": 20}
    fields = {"max_trials": 50_000, "max_concurrent_trials": at_once, **asha}
    _, trials = started(name, space, **fields)
    assert 1000 <= len(trials) <= MOST_AT_ONCE


def test_random_replaces_exited_trials_up_to_max_trials() -> None:
    search, (one, two) = started("random", max_trials=3, max_concurrent_trials=2)
    (three,) = creates(search.fold(Exited(one.request_id)))
    assert search.fold(Exited(two.request_id)) == ()
    assert search.fold(Exited(three.request_id)) == (Shutdown(),)


def test_random_does_not_replace_a_trial_that_failed() -> None:
    search, (one, two) = started("random", max_trials=2)
    search.fold(ExitedEarly(one.request_id, ExitReason.ERRORED))
    assert search.fold(Exited(one.request_id)) == ()
    assert search.fold(Exited(two.request_id)) == (Shutdown(),)


def test_max_length_is_the_train_target_of_a_trial() -> None:
    search = new(searcher("single", max_length={"epochs": 7}), SPACE, 0)
    create, train = search.fold(Started())
    assert isinstance(create, Create)
    assert train == TrainTo(create.request_id, 7)


def test_random_never_reads_metrics() -> None:
    search, (trial,) = started("single")
    assert search.metric_names == frozenset()
    assert search.fold(Validated(trial.request_id, {"accuracy": None})) == ()


def test_a_second_early_exit_of_a_trial_is_ignored() -> None:
    search, (trial,) = started("single")
    search.fold(ExitedEarly(trial.request_id, ExitReason.USER_CANCELED))
    search.fold(ExitedEarly(trial.request_id, ExitReason.ERRORED))
    assert search.fold(Exited(trial.request_id)) == (Shutdown(cancel=True),)


def test_repeated_invalid_hyperparameters_fail_with_a_remedy() -> None:
    search, (trial,) = started("single")
    actions: tuple[Action, ...] = ()
    for _ in range(200):
        actions = search.fold(ExitedEarly(trial.request_id, ExitReason.INIT_INVALID_HP))
        if search.over:
            break
        (trial,) = creates(search.fold(Exited(trial.request_id)))
    (fail,) = actions
    assert isinstance(fail, Fail)
    assert "narrow the hyperparameter space" in fail.reason


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("random", {"max_trials": 20, "max_concurrent_trials": 4}),
        ("grid", {"max_concurrent_trials": 2}),
    ],
)
def test_progress_counts_trials_that_do_not_exist_yet(name: str, more: dict[str, Any]) -> None:
    space: Space = {"width": Categorical((1, 2, 3))} if name == "grid" else SPACE
    search, created = started(name, space, **more)
    planned = len(created) + search.method.uncreated()
    assert planned > len(created)
    search.fold(Exited(created[0].request_id))
    assert search.progress({}) == pytest.approx(1 / planned)


def test_progress_counts_closed_and_partial_but_not_invalid_trials() -> None:
    search, (one, two, three, four) = started("random", max_trials=4)
    search.fold(Exited(one.request_id))
    search.fold(ExitedEarly(two.request_id, ExitReason.INVALID_HP))
    fractions = {three.request_id: 0.5, two.request_id: 0.9}
    assert search.progress(fractions) == pytest.approx((1 + 0.5 + 0) / 4)
    assert four.request_id not in fractions


def test_progress_of_a_new_search_is_zero() -> None:
    assert new(searcher("random", max_trials=4), SPACE, 0).progress({}) == 0


def test_error_for_unknown_method_lists_known_ones() -> None:
    with pytest.raises(SearchFailed, match="adaptive_asha, async_halving"):
        new(searcher("hyperopt"), SPACE, 0)


def grid_of(space: Space) -> list[Mapping[str, Any]]:
    """Return the points of a grid, from the first combination to the last."""
    _, trials = started("grid", space, max_concurrent_trials=0)
    return [trial.hparams for trial in reversed(trials)]


def values(*names: str, **space: Any) -> list[Any]:
    points = grid_of(space)
    return [tuple(point[name] for name in names) for point in points]


@pytest.mark.parametrize(
    ("hparam", "expected"),
    [
        (Int(0, 4, count=5), [0, 1, 2, 3, 4]),
        (Int(-4, -2, count=3), [-4, -3, -2]),
        (Int(0, 10, count=1), [5]),
        (Int(1, 2, count=9), [1, 2]),
        (Double(1.0, 3.0, count=3), [1.0, 2.0, 3.0]),
        (Log(1.0, 2.0, 10.0, count=2), [10.0, 100.0]),
        (Categorical(("b", "a")), ["b", "a"]),
        (Const([1, 2]), [[1, 2]]),
    ],
)
def test_an_axis_has_the_published_values(hparam: Any, expected: list[Any]) -> None:
    assert [value for (value,) in values("x", x=hparam)] == expected


def test_the_first_axis_varies_slowest() -> None:
    assert values("a", "b", b=Int(0, 10, count=3), a=Int(0, 20, count=3)) == [
        (a, b) for a in (0, 10, 20) for b in (0, 5, 10)
    ]


NESTED: Space = {
    "a": Nested({"b": Nested({"c1": Categorical((3, 5))}), "c2": Int(7, 11, count=2)}),
    "f": Double(13.0, 17.0, count=2),
    "l": Log(1.0, 2.0, 10.0, count=2),
    "empty": Nested({}),
    "k": Const("same"),
}


def test_nested_hyperparameters_are_axes_too_and_empty_maps_survive() -> None:
    points = grid_of(NESTED)
    assert len(points) == grid_size(NESTED) == 16
    assert points[0] == {
        "a": {"b": {"c1": 3}, "c2": 7},
        "f": 13.0,
        "l": 10.0,
        "empty": {},
        "k": "same",
    }


def test_a_grid_starts_with_the_last_combination_and_runs_each_once() -> None:
    space = {"x": Int(0, 20, count=3), "y": Int(0, 10, count=3)}
    search, trials = started("grid", space, max_concurrent_trials=2)
    samples = []
    while trials:
        trial = trials.pop(0)
        samples.append(trial.hparams)
        trials.extend(creates(search.fold(Exited(trial.request_id))))
    assert samples == list(reversed(grid_of(space)))
    assert search.over


def test_grid_does_not_retry_an_invalid_point() -> None:
    search, (trial,) = started("grid", {"x": Const(1)})
    search.fold(ExitedEarly(trial.request_id, ExitReason.INVALID_HP))
    assert search.fold(Exited(trial.request_id)) == (Shutdown(),)


def test_error_for_grid_without_counts_names_the_hyperparameter() -> None:
    with pytest.raises(SearchFailed, match=r"net\.width has no count"):
        new(searcher("grid"), {"net": Nested({"width": Int(1, 9)})}, 0)


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "random", "max_trials": 1},
        {"name": "grid"},
        {"name": "pbt", "population_size": 2, "num_rounds": 1, "length_per_round": 1},
    ],
    ids=["random", "grid", "pbt"],
)
def test_trials_have_their_hyperparameters_in_the_users_order(fields: dict[str, Any]) -> None:
    space: Space = {
        "z": Double(0, 1, 1),
        "group": Nested({"y": Const(1), "bb": Categorical((1,)), "a": Int(0, 3, 1)}),
        "b": Const({"k": 1, "a": 2}),
    }
    search = new({"metric": "loss", **fields}, space, 0)
    sample = creates(search.fold(Started()))[0].hparams
    assert list(sample) == ["z", "group", "b"]
    assert list(sample["group"]) == ["y", "bb", "a"]


def test_perturbed_copy_has_the_users_order() -> None:
    space: Space = {
        "z": Double(0, 1),
        "group": Nested({"y": Const(1), "a": Int(0, 3)}),
        "b": Const(1),
    }
    explored = Explorer(space, Rng(1), 0.5, 0.2).explore(
        {"b": 1, "group": {"a": 1, "y": 1}, "z": 1}
    )
    assert list(explored) == ["z", "group", "b"]
    assert list(explored["group"]) == ["y", "a"]
