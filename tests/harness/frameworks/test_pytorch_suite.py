"""Run the tests that need torch with the interpreter that has it, in one process because torch loads slowly."""

import pathlib

import pytest

from tests.support import ml

HARNESS = pathlib.Path(__file__).parent.parent


@pytest.mark.parametrize("folder", ["pytorch", "checkpointing", "replicas"])
def test_suite_passes(folder: str, tmp_path: pathlib.Path) -> None:
    suite = HARNESS / folder
    output = ml.run_pytest("ml", suite, tmp_path)
    assert [path.name for path in suite.glob("test_*.py") if path.name not in output] == []
