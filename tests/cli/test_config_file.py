"""Reading and changing configurations."""

from pathlib import Path

import pytest
import yaml
from det_cli import config_file
from det_cli.errors import CommandError, UsageError
from det_controlplane.core.config import InvalidConfig, load_yaml
from hypothesis import given
from hypothesis import strategies as st


def changed(text: str, *changes: str) -> object:
    return yaml.safe_load(config_file.changed(text, changes))


def test_without_changes_the_text_stays_as_it_is() -> None:
    text = "# why\na:   1 # two\n"
    assert config_file.changed(text, []) == text


@pytest.mark.parametrize("text", ["", "\n \n", "# to be written\n"])
def test_an_empty_file_is_told_so_unless_something_is_added(tmp_path: Path, text: str) -> None:
    file = tmp_path / "const.yaml"
    file.write_text(text)
    with pytest.raises(CommandError, match=r"const\.yaml is empty"):
        config_file.read(str(file))
    assert yaml.safe_load(config_file.read(str(file), ["a=1"])) == {"a": 1}
    assert config_file.read(str(file), may_be_empty=True) == text


@pytest.mark.parametrize("text", ["a: 1\nb: {c:] d}\n", "a: x\t\nb: [|c]\n", "a: [b\t\n"])
def test_a_mistake_is_told_at_the_place_that_the_cluster_names(text: str) -> None:
    with pytest.raises(CommandError) as here:
        config_file.loaded(text, "bad.yaml")
    with pytest.raises(InvalidConfig) as there:
        load_yaml(text)
    place = str(there.value).split("not valid YAML: ")[1].split(":")[0]
    assert str(here.value).startswith(f"bad.yaml, {place} is not valid YAML")


def test_a_dotted_key_reaches_into_the_depth_and_makes_what_is_missing() -> None:
    assert changed("a: {b: 1, c: 2}\n", "a.b=3", "d.e.f=x") == {
        "a": {"b": 3, "c": 2},
        "d": {"e": {"f": "x"}},
    }


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("3", 3),
        ("0.5", 0.5),
        ("true", True),
        ("null", None),
        ("", None),
        ("text", "text"),
        ("a,b", ["a", "b"]),
        ("[1, 2]", [1, 2]),
        ("{k: v, l: w}", {"k": "v", "l": "w"}),
        ('"a,b"', "a,b"),
        ("s3://bucket/x", "s3://bucket/x"),
    ],
)
def test_values_are_yaml_and_commas_make_lists(value: str, read: object) -> None:
    assert changed("", f"k={value}") == {"k": read}


def test_a_mapping_is_merged_into_the_mapping_that_is_there() -> None:
    assert changed("a: {b: 1, c: {x: 1, y: 2}}\n", "a={c: {y: 3}}") == {
        "a": {"b": 1, "c": {"x": 1, "y": 3}}
    }
    assert changed("a: {b: 1, l: [1, 2]}\n", "a={b: {z: 1}, l: [3]}") == {
        "a": {"b": {"z": 1}, "l": [3]}
    }


def test_a_value_may_contain_an_equals_sign() -> None:
    assert changed("", "env=A=1") == {"env": "A=1"}


def test_an_exponent_without_a_point_stays_a_number() -> None:
    text = config_file.changed("lr: 1e-3\n", ["a=1"])
    assert "lr: 1e-3\n" in text
    assert config_file.loaded(text)["lr"] == 0.001


def test_a_null_section_can_be_filled() -> None:
    assert changed("resources:\n", "resources.slots=1") == {"resources": {"slots": 1}}


def test_a_scalar_cannot_be_a_section() -> None:
    with pytest.raises(UsageError, match="'a' is not a mapping"):
        config_file.changed("a: 1\n", ["a.b=2"])


@pytest.mark.parametrize("change", ["novalue", "=1"])
def test_a_change_needs_key_and_value(change: str) -> None:
    with pytest.raises(UsageError):
        config_file.changed("", [change])


@pytest.mark.parametrize("text", ["- a\n", "just text\n"])
def test_a_configuration_is_a_mapping(text: str) -> None:
    with pytest.raises(CommandError, match="not a mapping"):
        config_file.changed(text, [])


def test_a_mistake_is_located() -> None:
    with pytest.raises(CommandError, match="line 2, column 5"):
        config_file.changed("a: 1\nb: [\x01]\n".replace("\x01", "}"), [], "c.yaml")


words = st.text("abcxyz_", min_size=1, max_size=6)
scalars = st.one_of(
    st.integers(), st.booleans(), st.floats(allow_nan=False, allow_infinity=False), words
)
trees = st.recursive(
    scalars, lambda t: st.one_of(st.lists(t, max_size=3), st.dictionaries(words, t, max_size=3))
)


@given(st.dictionaries(words, trees, max_size=4), words, st.integers())
def test_a_change_leaves_all_other_fields_alone(
    tree: dict[str, object], key: str, value: int
) -> None:
    text = yaml.safe_dump(tree)
    assert changed(text, f"{key}={value}") == {**tree, key: value}


def test_a_file_that_is_no_text_is_told_so(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_bytes("name: é".encode("latin-1"))
    with pytest.raises(CommandError, match=r"config\.yaml is no text in UTF-8: .* at byte 6"):
        config_file.read(str(file))
