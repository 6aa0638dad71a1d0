"""Run tests/harness/pytorch with the interpreter that has torch, in one process because torch loads slowly."""

import pathlib

from tests.support import ml

SUITE = pathlib.Path(__file__).parent.parent / "pytorch"


def test_pytorch_suite_passes(tmp_path: pathlib.Path) -> None:
    output = ml.run_pytest("ml", SUITE, tmp_path)
    assert [path.name for path in SUITE.glob("test_*.py") if path.name not in output] == []
