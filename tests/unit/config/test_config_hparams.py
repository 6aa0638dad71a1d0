"""The hyperparameter space as users write it."""

from typing import Any

import pytest
from det_controlplane.core import hparams
from det_controlplane.core.hparams import Categorical, Const, Double, Int, Log, Nested


def problems(raw: Any) -> dict[str, str]:
    return {problem.path: problem.message for problem in hparams.parse(raw)[1]}


def test_reads_each_kind_of_hyperparameter() -> None:
    space, found = hparams.parse(
        {
            "i": {"type": "int", "minval": 1, "maxval": 4.0, "count": 2},
            "d": {"type": "double", "minval": 0, "maxval": 1},
            "l": {"type": "log", "minval": -4, "maxval": -1, "base": 10},
            "c": {"type": "categorical", "vals": ["relu", 3, None]},
            "k": {"type": "const", "val": {"type": "anything"}},
        }
    )
    assert not found
    assert space == {
        "i": Int(1, 4, 2),
        "d": Double(0.0, 1.0),
        "l": Log(-4.0, -1.0, 10.0),
        "c": Categorical(("relu", 3, None)),
        "k": Const({"type": "anything"}),
    }


def test_plain_values_are_constants_and_plain_objects_are_groups() -> None:
    space, found = hparams.parse({"n": 3, "list": [1, 2], "null": None, "g": {"e": {}, "x": "s"}})
    assert not found
    assert space["n"] == Const(3)
    assert space["list"] == Const([1, 2])
    assert space["null"] == Const(None)
    assert space["g"] == Nested({"e": Nested({}), "x": Const("s")})


def test_names_have_the_users_order_at_every_level() -> None:
    space, _ = hparams.parse({"b": 1, "a": {"z": 1, "y": 2}})
    group = space["a"]
    assert list(space) == ["b", "a"]
    assert isinstance(group, Nested)
    assert list(group.members) == ["z", "y"]


def test_explicit_form_parses_to_the_same_space() -> None:
    raw = {"a": 1, "g": {"l": {"type": "log", "minval": 0, "maxval": 1, "base": 2}, "v": [1]}}
    space, _ = hparams.parse(raw)
    json_value = hparams.to_json(space)
    assert json_value["a"] == {"type": "const", "val": 1}
    assert hparams.parse(json_value) == (space, [])


@pytest.mark.parametrize(
    ("raw", "path", "said"),
    [
        ({"type": "float"}, "hyperparameters.x.type", "must be one of const, int, double, log"),
        ({"type": {"a": 1}}, "hyperparameters.x.type", "must be one of"),
        ({"type": "int", "minval": 1}, "hyperparameters.x.maxval", "is required for int"),
        ({"type": "int", "minval": 1, "maxval": 1}, "hyperparameters.x", "must be less than"),
        ({"type": "int", "minval": 1, "maxval": 2.5}, "hyperparameters.x.maxval", "a whole number"),
        (
            {"type": "int", "minval": True, "maxval": 2},
            "hyperparameters.x.minval",
            "a whole number",
        ),
        (
            {"type": "int", "minval": 0, "maxval": 1e300},
            "hyperparameters.x.maxval",
            "a whole number",
        ),
        (
            {"type": "int", "minval": 0, "maxval": 9, "count": 0},
            "hyperparameters.x.count",
            "at least 1",
        ),
        (
            {"type": "int", "minval": 0, "maxval": 9, "base": 2},
            "hyperparameters.x.base",
            "is unknown",
        ),
        (
            {"type": "double", "minval": "0", "maxval": 1},
            "hyperparameters.x.minval",
            "must be a number",
        ),
        (
            {"type": "double", "minval": -1e308, "maxval": 1e307},
            "hyperparameters.x.minval",
            "a number",
        ),
        (
            {"type": "log", "minval": 0, "maxval": 1},
            "hyperparameters.x.base",
            "is required for log",
        ),
        (
            {"type": "log", "minval": 0, "maxval": 1, "base": 0},
            "hyperparameters.x.base",
            "greater than 0",
        ),
        ({"type": "log", "minval": 0, "maxval": 999, "base": 10}, "hyperparameters.x", "overflow"),
        ({"type": "categorical", "vals": []}, "hyperparameters.x.vals", "at least one value"),
        ({"type": "categorical", "vals": 3}, "hyperparameters.x.vals", "must be a list"),
        ({"type": "const"}, "hyperparameters.x.val", "is required for const"),
        ({"deep": {"type": "int"}}, "hyperparameters.x.deep.minval", "is required"),
        ({"": 1}, "hyperparameters.x", "non-empty"),
    ],
)
def test_wrong_hyperparameter_is_reported_with_its_path(raw: Any, path: str, said: str) -> None:
    assert said in problems({"x": raw})[path]


def test_every_wrong_hyperparameter_is_reported() -> None:
    problems_by_path = problems({"a": {"type": "int"}, "b": {"c": {"type": "wrong"}}})
    assert set(problems_by_path) == {
        "hyperparameters.a.minval",
        "hyperparameters.a.maxval",
        "hyperparameters.b.c.type",
    }


@pytest.mark.parametrize("raw", [None, 3, [], "x"])
def test_rejects_space_that_is_not_an_object(raw: Any) -> None:
    assert "must be an object" in problems(raw)["hyperparameters"]


def test_a_grid_needs_a_count_for_every_range_at_any_depth() -> None:
    space, _ = hparams.parse(
        {
            "a": {"type": "int", "minval": 0, "maxval": 9},
            "b": {"c": {"type": "log", "minval": 0, "maxval": 1, "base": 10}},
            "d": {"type": "double", "minval": 0, "maxval": 1, "count": 3},
        }
    )
    assert [p.path for p in hparams.grid_problems(space)] == [
        "hyperparameters.a",
        "hyperparameters.b.c",
    ]


def test_grid_size_multiplies_counts_and_clamps_integers_to_their_range() -> None:
    space, _ = hparams.parse(
        {
            "a": {"type": "int", "minval": 0, "maxval": 1, "count": 50},
            "b": {"c": {"type": "categorical", "vals": [1, 2, 3]}},
            "d": {"type": "double", "minval": 0, "maxval": 1, "count": 4},
            "e": "const",
        }
    )
    assert hparams.grid_size(space) == 2 * 3 * 4
