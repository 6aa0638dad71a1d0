"""Reading YAML and JSON text."""

import tracemalloc
from typing import Any

import pytest
from det_controlplane.core.config import InvalidConfig, load_yaml


def message(text: str) -> str:
    with pytest.raises(InvalidConfig) as error:
        load_yaml(text)
    return str(error.value)


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        ("1e-3", 0.001),
        ("1e3", 1000.0),
        ("-1.5E+2", -150.0),
        (".5", 0.5),
        ("1_000", 1000),
        ("010", 10),
        ("0o10", 8),
        ("0x1F", 31),
        ("-3", -3),
        ("on", "on"),
        ("no", "no"),
        ("True", True),
        ("false", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("2020-01-01", "2020-01-01"),
        ("1:30", "1:30"),
        ("1.2.3", "1.2.3"),
        ("'1'", "1"),
        ("!!str 1", "1"),
        ("[1, a]", [1, "a"]),
        ("|\n  two\n  lines\n", "two\nlines\n"),
    ],
)
def test_scalars_are_read_as_yaml_1_2(scalar: str, value: Any) -> None:
    loaded_value = load_yaml(f"x: {scalar}")["x"]
    assert (loaded_value, type(loaded_value)) == (value, type(value))


def test_json_is_accepted() -> None:
    assert load_yaml('{"a": {"b": [1, 2.5, null]}}') == {"a": {"b": [1, 2.5, None]}}


def test_keys_become_text() -> None:
    assert load_yaml("{1: a, true: b, x: c}") == {"1": "a", "true": "b", "x": "c"}


def test_anchors_and_merge_keys_are_expanded_and_own_keys_win() -> None:
    text = "base: &b {x: 1, y: 2}\nother: &o {y: 3, z: 4}\nboth: {<<: [*b, *o], x: 9}\n"
    assert load_yaml(text)["both"] == {"x": 9, "y": 2, "z": 4}


def test_syntax_error_has_line_and_column() -> None:
    told = message("name: x\nsearcher: {name: single\nlabels: 3")
    assert told.startswith("invalid experiment configuration: not valid YAML: line 3, column ")


def test_rejects_duplicate_key_with_its_line() -> None:
    assert "line 3, column 1: the key 'a' appears twice" in message("a: 1\nb: 2\na: 3\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it is empty"),
        ("- 1", "must be a mapping"),
        ("just words", "must be a mapping"),
        ("a: &x [*x]", "contains itself"),
        ("a: !!python/object:os.system x", "is not supported"),
        ("a: !!binary aGVsbG8=", "is not supported"),
        ("? [1]\n: 2", "a key must be text"),
        ("a: .inf", "a: is inf; only finite numbers"),
        ('a: {b: "x\\0y"}', "a.b: contains a NUL character"),
        ('{"a": "\\ud800"}', "half of a surrogate pair"),
        ("a: 1\n---\nb: 2", "line 2"),
        ("<<: 3", "must be given a mapping"),
        ("a: " + "9" * 5000, "not valid YAML"),
        ("a: 0x" + "f" * 4000, "a number of more than 1000 digits"),
        ("a: " + "[" * 150 + "]" * 150, "nested more than 100 levels"),
    ],
)
def test_rejects_text_that_is_not_a_configuration(text: str, said: str) -> None:
    assert said in message(text)


@pytest.mark.parametrize("text", ["a: " + "[" * 50_000, '{"a":' * 50_000])
def test_rejects_extreme_nesting(text: str) -> None:
    assert message(text)


def test_rejects_aliases_that_expand_exponentially() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    assert "more than 200000 values" in message("\n".join(lines))


@pytest.mark.parametrize("long", ["x" * 100_000, f"{{? {'x' * 100_000} : 1}}"], ids=["text", "key"])
def test_rejects_long_text_repeated_by_aliases(long: str) -> None:
    text = f"a: &a {long}\nb: [{', '.join(['*a'] * 200)}]"
    assert "more than 1000000 characters" in message(text)


def test_rejects_text_that_is_too_long() -> None:
    """Comments are stored, too."""
    assert "more than 1000000 characters" in message("name: x\n#" + "x" * 1_000_000)


def test_rejects_too_many_values_before_allocating_them() -> None:
    tracemalloc.start()
    try:
        assert "more than 200000 values" in message("a: [" + "a," * 450_000 + "]")
        assert tracemalloc.get_traced_memory()[1] < 200 << 20
    finally:
        tracemalloc.stop()


def test_rejects_repeated_merges_of_a_mapping() -> None:
    """Each merge copies every key: half a megabyte would take minutes."""
    keys = ", ".join(f"k{n}: 1" for n in range(10_000))
    text = f"a: &a {{{keys}}}\nb: {{<<: [{', '.join(['*a'] * 50_000)}]}}"
    assert "merges more than 200000 values" in message(text)
    assert load_yaml("a: &a {x: 1}\nb: {<<: [*a, *a], y: 2}")["b"] == {"x": 1, "y": 2}
