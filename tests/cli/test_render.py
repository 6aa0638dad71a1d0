"""Tables, CSV and messages of the command line."""

import pytest
from det_cli import render
from det_cli.render import cell, in_words, print_rows


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (True, "yes"),
        (False, "no"),
        ("N/A", ""),
        ("TYPE_EXPERIMENT", "experiment"),
        ("TYPE_CHECKPOINT_GC", "checkpoint gc"),
        ("STATE_QUEUED", "QUEUED"),
        ("STATE_SCHEDULED_BACKFILLED", "SCHEDULED BACKFILLED"),
        ("SCHEDULER_TYPE_PRIORITY", "priority"),
        ("a STATE_QUEUED", "a STATE_QUEUED"),
        (3, 3),
        (None, None),
    ],
)
def test_tables_have_words_where_csv_has_values_of_the_api(
    value: object, words: object, capsys: pytest.CaptureFixture[str]
) -> None:
    assert in_words(value) == words
    print_rows(["a"], [[value]], as_csv=True)
    assert capsys.readouterr().out.splitlines()[1].strip('"') == cell(value)


def test_table_has_bars_and_padding() -> None:
    assert render.table(["Name", "N"], [["a", 1]]) == " Name   |   N\n--------+-----\n a      |   1"


def test_numbers_are_right_aligned() -> None:
    lines = render.table(["Count", "Word"], [[1, "x"], [1000, "yy"], [None, ""]]).splitlines()
    assert lines[2:] == ["       1 | x", "    1000 | yy", "         |"]


def test_column_with_text_is_left_aligned() -> None:
    assert render.table(["V"], [["1"], ["x"]]).splitlines()[2:] == [" 1", " x"]


def test_multiline_cells_stay_in_one_row() -> None:
    lines = render.table(["A", "B"], [["one", {"k": 1}], ["two", "x"]]).splitlines()
    assert [line.split("|")[0].strip() for line in lines[2:]] == ["one", "", "", "two"]


@pytest.mark.parametrize("width", [40, 60, 80])
def test_table_fits_the_terminal(width: int) -> None:
    text = render.table(["ID", "Description"], [[1, "word " * 40], [2, "short"]], width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" in text
    assert "short" in text


def test_cells_are_not_truncated_without_a_terminal() -> None:
    assert "word " * 39 in render.table(["D"], [["word " * 40]])


def test_states_are_coloured_only_if_colour_is_set() -> None:
    assert "\x1b[32mCOMPLETED" in render.table(["State"], [["COMPLETED"]], colour=True)
    assert "\x1b" not in render.table(["State"], [["COMPLETED"]])


def test_no_color_turns_colours_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not render.colours()


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0.0B"), (None, "0.0B"), ("3000", "2.9KB"), (5 * 2**30, "5.0GB"), (2**50, "1024.0TB")],
)
def test_sizes_have_units(count: object, text: str) -> None:
    assert render.size_text(count) == text  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("=1+1", "'=1+1"),
        ("@x", "'@x"),
        ("-rm", "'-rm"),
        ("-1", "-1"),
        (-0.5, "-0.5"),
        ("a-b", "a-b"),
    ],
)
def test_csv_escapes_spreadsheet_formulas(
    capsys: pytest.CaptureFixture[str], value: object, shown: str
) -> None:
    """Headers and cells that look like a formula are escaped. Numbers are not changed."""
    render.print_rows([str(value)], [[value]], as_csv=True)
    assert capsys.readouterr().out.splitlines() == [shown, shown]


def test_csv_does_not_round_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    numbers = [0.123456789, 12345678.0]
    render.print_rows(["a", "b"], [numbers], as_csv=True)
    assert capsys.readouterr().out == "a,b\n0.123456789,12345678.0\n"
    assert "0.123457" in render.table(["a", "b"], [numbers])


def test_terminal_escapes_in_names_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    """Names come from other users. Escape sequences could clear the screen or write to the clipboard."""
    name = "a\x1b[2J\x1b]52;c;cm0gLXJmIC8=\x07\u202eb"
    lines = render.table(["Name"], [[name]])
    render.say(f"experiment {name}\nis there")
    message = capsys.readouterr().err
    for text in (lines, message):
        assert "a\\x1b[2J\\x1b]52;c;cm0gLXJmIC8=\\x07\\u202eb" in text
        assert "\x1b" not in text
    assert message.endswith("\nis there\n")
