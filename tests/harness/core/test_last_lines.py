"""No output line of a rank or an entrypoint is lost if copying is slow."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from determined.common.pipes import PipeReader

# The copier does not write before the process has asked whether it is behind, and the grace period is zero.
SLOW_COPIER = """
import os, sys, threading
from determined.common.pipes import PipeReader
from determined.exec import _child
from determined.launch import _workers

checked, is_behind = threading.Event(), PipeReader.is_behind

def note_and_check(reader):
    checked.set()
    return is_behind(reader)

PipeReader.is_behind = note_and_check
_child.QUIET_AFTER_EXIT_S = _workers.QUIET_AFTER_EXIT_S = 0.0
"""
LAUNCHER = """
write = _workers._write_all

def slow_write(*arguments):
    checked.wait(60)
    write(*arguments)

_workers._write_all = slow_write
sys.exit(_workers.run_workers([_workers.Worker(3, sys.argv[1:], os.environ)]))
"""
ENTRY = """
class Logs:
    lines = []

    def add(self, line, stdtype):
        checked.wait(60)
        self.lines.append(line.text)

code = _child.Child(sys.argv[1:], os.environ, ".", Logs()).wait()
print(*Logs.lines, sep="\\n")
sys.exit(code)
"""


def run(script: str, command: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", SLOW_COPIER + script, "sh", "-c", command],
        env={**os.environ, "DET_RUNTIME": "process"},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("script", "mark"), [(LAUNCHER, "[rank=3] "), (ENTRY, "")], ids=["launcher", "entry"]
)
def test_last_lines_are_copied(tmp_path: Path, script: str, mark: str) -> None:
    result = run(script, "echo one; echo two; echo three; exit 4", tmp_path)
    assert result.stdout == "".join(f"{mark}{line}\n" for line in ("one", "two", "three"))
    assert result.returncode == 4, result.stderr


@pytest.mark.parametrize("script", [LAUNCHER, ENTRY], ids=["launcher", "entry"])
def test_does_not_wait_for_daemon_that_keeps_the_pipe_open(tmp_path: Path, script: str) -> None:
    daemon = "import os; print(os.getpid(), file=open('pid', 'w')); import time; time.sleep(600)"
    starts = f'{sys.executable} -c "{daemon}" & until test -s pid; do sleep 0.02; done; exit 5'
    try:
        assert run(script, starts, tmp_path).returncode == 5
    finally:
        os.kill(int((tmp_path / "pid").read_text()), 9)


def test_reader_is_behind_until_the_next_read() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as pipe:
        reader = PipeReader(pipe)
        assert not reader.is_behind()
        os.write(writing, b"x")
        assert reader.is_behind()
        assert reader.read() == b"x"
        assert reader.is_behind()
        os.close(writing)
        assert reader.read() == b""
