"""The program that runs the benchmarks."""

import pytest

from bench.run import chosen


def test_benchmarks_are_selected_by_name() -> None:
    assert [path.stem for path in chosen(["search", "cost"])] == ["cost", "search"]
    assert {"api", "schedule"} < {path.stem for path in chosen([])}


def test_error_for_unknown_benchmark_lists_existing_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The program once ran no benchmark and exited with 0."""
    with pytest.raises(SystemExit) as error:
        chosen(["scheduling"])
    assert error.value.code == 2
    assert "no benchmark is named scheduling; there are api, cli" in capsys.readouterr().err
