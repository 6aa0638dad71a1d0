"""The place of the suite's temporary files, and the files that a run leaves."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cluster import ROOT

_CONFTEST = """
import pathlib
from tests.support import files_in_memory
files_in_memory.MEMORY = pathlib.Path({memory!r})
files_in_memory._is_roomy = lambda: {roomy}
"""
_TEST = """
import os
def test_a(tmp_path):
    print("at", tmp_path)
    assert not os.environ.get("FAILING")
"""


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    folder = tmp_path / "memory"
    folder.mkdir()
    return folder


def run(tmp_path: Path, memory: Path, *, roomy: bool = True, failing: bool = False) -> Path:
    """Run a test; return where it had its files."""
    tests = tmp_path / "tests_of_a_run"
    tests.mkdir()
    (tests / "conftest.py").write_text(_CONFTEST.format(memory=str(memory), roomy=roomy))
    (tests / "test_one.py").write_text(_TEST)
    disk = tmp_path / "disk"
    disk.mkdir()
    environment = {k: v for k, v in os.environ.items() if k != "PYTEST_DEBUG_TEMPROOT"}
    environment |= {"PYTHONPATH": str(ROOT), "TMPDIR": str(disk), "FAILING": "1" if failing else ""}
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-s", "-p", "tests.support.files_in_memory", str(tests)],
        cwd=tmp_path, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert result.returncode == failing, result.stdout + result.stderr
    return Path(result.stdout.partition("at ")[2].split()[0])


def test_files_are_in_memory_and_removed_after_a_passed_run(tmp_path: Path, memory: Path) -> None:
    place = run(tmp_path, memory)
    assert place.is_relative_to(memory)
    assert list(memory.iterdir()) == []


def test_files_of_a_failed_run_are_kept(tmp_path: Path, memory: Path) -> None:
    place = run(tmp_path, memory, failing=True)
    assert place.is_relative_to(memory)
    assert place.is_dir()


def test_files_are_on_disk_if_memory_is_too_small(tmp_path: Path, memory: Path) -> None:
    place = run(tmp_path, memory, roomy=False)
    assert place.is_relative_to(tmp_path / "disk")
    assert list(memory.iterdir()) == []
