"""The statistics of the comparison of searches on LCBench."""

import json
from pathlib import Path
from typing import Any

import pytest

from bench.lcbench_curves import MARKS
from bench.lcbench_plot import draw
from bench.lcbench_report import Runs, holm, table, wilcoxon
from bench.lcbench_run import Task, finished, tasks


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Results of two data sets and six seeds: method a is always 1 % better than b, and c has one seed."""
    path = tmp_path / "results.jsonl"
    rows = []
    for dataset in (1, 2):
        for seed in range(6):
            for method, distance in (("a", 0.0), ("b", 1.0), ("c", 0.5)):
                accuracies = [90.0 - distance - seed / 10] * len(MARKS)
                row: dict[str, Any] = {
                    "method": method,
                    "dataset": dataset,
                    "seed": seed,
                    "accuracies": accuracies,
                }
                row |= {"cpu_s": 2.0, "versions": {"peer": "1.2"} if method == "b" else {}}
                if method != "c" or seed == 0:
                    rows.append(json.dumps(row))
    path.write_text("\n".join(rows))
    return path


def test_signed_rank_test_knows_an_even_and_a_clear_difference() -> None:
    assert wilcoxon([]) == 1.0
    assert wilcoxon([1.0, -1.0, 2.0, -2.0]) == 1.0
    # The value of scipy.stats.wilcoxon(..., method="approx", correction=True).
    assert wilcoxon([1.1, 2.2, 3.3, 4.4, 5.5, 6.6, 7.7, -0.5]) == pytest.approx(0.0209, abs=2e-4)
    assert wilcoxon([float(n) for n in range(1, 31)]) < 1e-5


def test_corrected_p_values_grow_with_the_number_of_comparisons() -> None:
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03}) == pytest.approx(
        {"a": 0.03, "c": 0.06, "b": 0.06}
    )
    assert holm({"a": 0.9, "b": 0.8}) == {"b": 1.0, "a": 1.0}


def test_table_has_regrets_ranks_versions_and_p_values(file: Path) -> None:
    runs = Runs.read(file, ["a", "b", "c"], [1, 2])
    assert runs.mean("b", 100)[0] == pytest.approx(1.25)
    assert runs.ranks(100) == {"a": 1.0, "c": 2.0, "b": 3.0}
    assert runs.compared("a", 25)["b"] < 0.01
    lines = table(runs, "a").splitlines()
    assert [line.split(" | ")[0].lstrip("| ") for line in lines[2:]] == [
        "`a`",
        "`c`",
        "b (peer 1.2)",
    ]
    assert "| – |" in lines[2]


def test_method_without_runs_on_a_data_set_takes_no_part(file: Path) -> None:
    lines = file.read_text().splitlines()
    file.write_text("\n".join(line for line in lines if '"c", "dataset": 2' not in line))
    assert set(Runs.read(file, ["a", "b", "c"], [1, 2]).regrets) == {"a", "b"}


def test_picture_has_a_line_and_a_name_for_each_method(file: Path) -> None:
    svg = draw(Runs.read(file, ["a", "b"], [1, 2]))
    assert svg.count('fill="none"') == 2
    assert svg.startswith("<svg")
    assert ">a</text>" in svg
    assert ">100R</text>" in svg


def test_finished_runs_are_not_repeated(file: Path) -> None:
    left = tasks(["a", "c"], [1, 2], range(2), finished(file))
    assert left == [Task("c", 1, 1), Task("c", 2, 1)]
