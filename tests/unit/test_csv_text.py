"""A spreadsheet that opens a report shows users' names and executes none of them."""

import csv
import io

import pytest
from det_controlplane.core.csv_text import csv_text


@pytest.mark.parametrize(
    "text", ["=1+1", "+1+1", "-1+1", "@SUM(1)", "\t=1", "\n=1", '=HYPERLINK("x")', "- 1", "-1 "]
)
def test_formula_is_written_as_text(text: str) -> None:
    _, (cell, number) = csv.reader(io.StringIO(csv_text(["name", "n"], [[text, 1]]), newline=""))
    assert (cell, number) == (f"'{text}", "1")


@pytest.mark.parametrize("text", ["a\r=1+1", "a\r\n=1+1", "a\n=1+1"])
def test_name_with_several_lines_stays_in_its_cell(text: str) -> None:
    assert csv_text(["name", "n"], [[text, 1]]) == 'name,n\n"a\n=1+1",1\n'


@pytest.mark.parametrize("value", [-1, -0.5, "-0.500000", "+1", "-1e-05", "night", "a=b", "", None])
def test_numbers_and_other_texts_are_not_changed(value: object) -> None:
    _, (cell, _) = csv.reader(io.StringIO(csv_text(["name", "n"], [[value, 1]])))
    assert cell == ("" if value is None else str(value))
