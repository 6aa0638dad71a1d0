"""Lines of the live view: they fit the width of the terminal, and user text has no control characters."""

import math

import pytest
from det_cli.live import charts, text
from det_cli.live.observer import Observation
from det_cli.live.show import Screen, View
from det_cli.live.text import Column, Segment, line, plain
from hypothesis import given
from hypothesis import strategies as st

ANY_TEXT = st.text(st.characters(exclude_categories=[]), max_size=60)
ROOM = st.integers(1, 120)
NUMBERS = st.floats(allow_nan=True, allow_infinity=True)


@given(ANY_TEXT)
def test_segments_have_no_control_characters(content: str) -> None:
    shown_text = Segment(content).text
    assert all(c == " " or c.isprintable() or c == "\u3000" or c.isspace() for c in shown_text)
    assert not set(shown_text) & {
        "\x1b",
        "\n",
        "\r",
        "\t",
        "\x07",
        "\x08",
        "\x9b",
        "\u202e",
        "\u2028",
    }


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ("plain", "plain"),
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("<b>bold</b>", "<b>bold</b>"),
        ("two\nlines", "two\\x0alines"),
        ("right\u202eleft", "right\\u202eleft"),
        ("Zürich 東京", "Zürich 東京"),
    ],
)
def test_control_characters_are_escaped(content: str, shown: str) -> None:
    assert Segment(content).text == shown


@given(ANY_TEXT, ROOM, st.booleans())
def test_padded_text_has_exact_width(content: str, room: int, right: bool) -> None:
    assert text.width(text.pad(Segment(content).text, room, right=right)) == room


@given(st.lists(ANY_TEXT, max_size=5), st.lists(ANY_TEXT, max_size=3), ROOM)
def test_lines_fit_the_width(left: list[str], right: list[str], room: int) -> None:
    assert text.size_of(text.fitted(line(*left), room)) <= room
    assert text.size_of(text.apart(line(*left), line(*right), room)) <= room
    assert all(text.width(one) <= room for one in text.wrapped(" ".join(left), room))


@given(st.lists(st.tuples(ANY_TEXT, ANY_TEXT), max_size=6), ROOM)
def test_tables_fit_the_width(rows: list[tuple[str, str]], room: int) -> None:
    columns = (
        Column("first", lambda r: r[0], least=8),
        Column("second", lambda r: r[1], drop=1, right=True),
    )
    assert all(text.size_of(one) <= room for one in text.table(columns, rows, room))


def test_table_drops_least_important_columns_first() -> None:
    columns = (
        Column("id", lambda r: "1"),
        Column("name", lambda r: "a long name of a trial", least=10, drop=2),
        Column("state", lambda r: "RUNNING", least=7),
    )
    lines = [plain(one) for one in text.table(columns, [None], 14)]
    assert lines == ["id  state", "1   RUNNING"]


@given(st.lists(st.tuples(st.floats(-10, 1e6), NUMBERS), max_size=30), NUMBERS, NUMBERS, ROOM)
def test_curves_fit_the_width(
    points: list[tuple[float, float]], low: float, high: float, room: int
) -> None:
    drawn_line = charts.curve(points, 100.0, (low, high), room)
    assert len(drawn_line) <= room
    assert set(drawn_line) <= set("▁▂▃▄▅▆▇█×")


def test_curve_ends_at_last_point() -> None:
    points = [(10.0, 1.0), (25.0, 0.5), (50.0, 0.0)]
    assert charts.curve(points, 100.0, (0.0, 1.0), 10) == "██▅▅▁"


def test_sparkline_has_one_column_per_value() -> None:
    assert charts.sparkline([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], 20) == "▁▂▃▄▅▆▇█"
    assert charts.sparkline([], 20) == ""
    assert charts.sparkline([1.0, math.nan, 1.0], 20) == "▄×▄"


def test_several_diverging_trials_do_not_flatten_the_others() -> None:
    good = [1.0 - trial / 100 - step / 40 for trial in range(9) for step in range(20)]
    diverging = [10.0**step for step in range(12)] * 3
    low, high = charts.bounds([*good, *diverging])
    assert low == min(good)
    assert high == pytest.approx(1.0)


def test_equal_values_with_one_exception_have_the_whole_range() -> None:
    assert charts.bounds([*[0.5] * 40, 2.0]) == (0.5, 2.0)


def test_outlier_does_not_flatten_curves() -> None:
    values = [i / 100 for i in range(100)] + [1e9]
    assert charts.bounds(values)[1] < 1


@given(NUMBERS, st.integers(0, 50))
def test_bars_have_exact_width(share: float, room: int) -> None:
    assert len(charts.bar(share, room)) == room


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0, "0s"), (59.9, "59s"), (61, "1m 01s"), (3660, "1h 01m"), (90_000, "1d 1h"), (-5, "0s")],
)
def test_durations_show_two_largest_units(seconds: float, expected: str) -> None:
    assert charts.span(seconds) == expected


@pytest.mark.parametrize("value", [None, True, "x", {}, [], "1" * 5000 + "x"])
def test_number_returns_none_for_other_values(value: object) -> None:
    assert charts.number(value) is None


def test_block_characters_are_replaced_for_ascii_terminals() -> None:
    assert text.encodable("▁▂▃▄▅▆▇█░·…–×é", "ascii") == "._,-=+*#..~-x?"
    assert text.encodable("█", "utf-8") == "█"


def test_line_without_colours_is_plain() -> None:
    parts = line(Segment("RUNNING", "busy"), " 1")
    assert text.styled(parts, colour=False) == "RUNNING 1"
    assert text.styled(parts, colour=True) == "\x1b[36mRUNNING\x1b[0m 1"


def view(rows: int) -> "View[str]":
    return View(lambda text, columns, now: [line(text)] * rows, str, str)


@given(
    ANY_TEXT, ANY_TEXT, st.integers(0, 60), st.integers(20, 200), st.integers(4, 60),
    st.lists(st.sampled_from(["up", "down", "page up", "page down", "home", "end"]), max_size=8),
    st.floats(0, 1e6),
)  # fmt: skip
def test_screen_fills_the_window_at_every_scroll_position(
    content: str, outage: str, length: int, columns: int, rows: int, keys: list[str], now: float
) -> None:
    screen = Screen(view(length))
    for key in [*keys, ""]:
        lines = screen.lines(Observation(content, 0.0, 2.0, outage=outage), columns, rows, now)
        assert len(lines) == rows
        assert all(text.size_of(one) <= columns for one in lines)
        assert not set("".join(plain(one) for one in lines)) & set("\x1b\n\r\t\x9b")
        screen.press(key)


def test_footer_shows_age_of_old_view() -> None:
    screen = Screen(view(1))
    footer = plain(screen.lines(Observation("x", 0.0, 2.0), 80, 5, 60.0)[-1])
    assert "updated 1m 00s ago" in footer
    outage = Observation("x", 0.0, 2.0, outage="cannot reach it")
    assert (
        plain(screen.lines(outage, 80, 5, 5.0)[-1]) == "q quit  no answer for 5s: cannot reach it"
    )


def test_footer_names_ctrl_c_without_keys() -> None:
    screen = Screen(view(1), has_keys=False)
    assert plain(screen.lines(Observation("x", 0.0, 2.0), 80, 5, 1.0)[-1]).startswith("Ctrl-C quit")
