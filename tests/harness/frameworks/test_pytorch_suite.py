"""Runs tests/harness/pytorch in the interpreter that has torch."""

import pathlib

import pytest

from tests.support import ml

SUITE = pathlib.Path(__file__).parent.parent / "pytorch"
FILES = sorted(path.name for path in SUITE.glob("test_*.py"))


@pytest.mark.parametrize("name", FILES)
def test_pytorch(name: str, tmp_path: pathlib.Path) -> None:
    ml.run_pytest("ml", str(SUITE / name), tmp_path)
