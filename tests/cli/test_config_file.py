"""Reading configuration files and applying `--config` changes."""

from pathlib import Path

import pytest
import yaml
from det_cli import config_file
from det_cli.errors import CommandError, UsageError
from det_controlplane.core.config import InvalidConfig, load_yaml
from hypothesis import given
from hypothesis import strategies as st


def changed(text: str, *changes: str) -> object:
    return yaml.safe_load(config_file.apply_changes(text, changes))


def test_without_changes_the_text_is_unchanged() -> None:
    text = "# why\na:   1 # two\n"
    assert config_file.apply_changes(text, []) == text


@pytest.mark.parametrize("text", ["", "\n \n", "# to be written\n"])
def test_rejects_an_empty_file_without_changes(tmp_path: Path, text: str) -> None:
    file = tmp_path / "const.yaml"
    file.write_text(text)
    with pytest.raises(CommandError, match=r"const\.yaml is empty"):
        config_file.read(str(file))
    assert yaml.safe_load(config_file.read(str(file), ["a=1"])) == {"a": 1}
    assert config_file.read(str(file), may_be_empty=True) == text


@pytest.mark.parametrize("text", ["a: 1\nb: {c:] d}\n", "a: x\t\nb: [|c]\n", "a: [b\t\n"])
def test_reports_yaml_errors_at_the_same_position_as_the_cluster(text: str) -> None:
    with pytest.raises(CommandError) as client_error:
        config_file.load(text, "bad.yaml")
    with pytest.raises(InvalidConfig) as cluster_error:
        load_yaml(text)
    place = str(cluster_error.value).split("not valid YAML: ")[1].split(":")[0]
    assert str(client_error.value).startswith(f"bad.yaml, {place} is not valid YAML")


def test_a_dotted_key_creates_missing_sections() -> None:
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


def test_a_mapping_is_merged_into_an_existing_mapping() -> None:
    assert changed("a: {b: 1, c: {x: 1, y: 2}}\n", "a={c: {y: 3}}") == {
        "a": {"b": 1, "c": {"x": 1, "y": 3}}
    }
    assert changed("a: {b: 1, l: [1, 2]}\n", "a={b: {z: 1}, l: [3]}") == {
        "a": {"b": {"z": 1}, "l": [3]}
    }


def test_a_value_may_contain_an_equals_sign() -> None:
    assert changed("", "env=A=1") == {"env": "A=1"}


def test_an_exponent_without_a_point_stays_a_number() -> None:
    text = config_file.apply_changes("lr: 1e-3\n", ["a=1"])
    assert "lr: 1e-3\n" in text
    assert config_file.load(text)["lr"] == 0.001


def test_a_null_section_can_be_filled() -> None:
    assert changed("resources:\n", "resources.slots=1") == {"resources": {"slots": 1}}


def test_a_scalar_cannot_be_a_section() -> None:
    with pytest.raises(UsageError, match="'a' is not a mapping"):
        config_file.apply_changes("a: 1\n", ["a.b=2"])


@pytest.mark.parametrize("change", ["novalue", "=1"])
def test_a_change_needs_key_and_value(change: str) -> None:
    with pytest.raises(UsageError):
        config_file.apply_changes("", [change])


@pytest.mark.parametrize("text", ["- a\n", "just text\n"])
def test_a_configuration_is_a_mapping(text: str) -> None:
    with pytest.raises(CommandError, match="not a mapping"):
        config_file.apply_changes(text, [])


def test_an_error_has_line_and_column() -> None:
    with pytest.raises(CommandError, match="line 2, column 5"):
        config_file.apply_changes("a: 1\nb: [\x01]\n".replace("\x01", "}"), [], "c.yaml")


words = st.text("abcxyz_", min_size=1, max_size=6)
scalars = st.one_of(
    st.integers(), st.booleans(), st.floats(allow_nan=False, allow_infinity=False), words
)
trees = st.recursive(
    scalars, lambda t: st.one_of(st.lists(t, max_size=3), st.dictionaries(words, t, max_size=3))
)


@given(st.dictionaries(words, trees, max_size=4), words, st.integers())
def test_a_change_keeps_all_other_fields(tree: dict[str, object], key: str, value: int) -> None:
    text = yaml.safe_dump(tree)
    assert changed(text, f"{key}={value}") == {**tree, key: value}


def test_rejects_a_file_that_is_not_utf8(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_bytes("name: é".encode("latin-1"))
    with pytest.raises(CommandError, match=r"config\.yaml is no text in UTF-8: .* at byte 6"):
        config_file.read(str(file))
