"""Modules of Determined's package that public examples import, compared with the package itself."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.stock import stock_python

SCRIPT = Path(__file__).with_name("half_public_script.py")


def outcomes(python: Path | str) -> dict[str, str]:
    done = subprocess.run([str(python), str(SCRIPT)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def expected() -> dict[str, str]:
    return outcomes(stock_python())


def test_functions_and_classes_give_the_same_results(expected: dict[str, str]) -> None:
    ours = outcomes(sys.executable)
    assert len(ours) > 30
    assert ours == expected
