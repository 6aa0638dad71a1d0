"""No line of a process is lost because who copies it is slow: neither behind a rank nor behind an entrypoint."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from determined.common.pipes import PipeReader

# Nobody is patient with a copier that is held up until somebody asks how far it is.
HELD_UP = """
import os, sys, threading
from determined.common.pipes import PipeReader
from determined.exec import _child
from determined.launch import _workers

asked, is_behind = threading.Event(), PipeReader.is_behind

def tell(reader):
    asked.set()
    return is_behind(reader)

PipeReader.is_behind = tell
_child.QUIET_AFTER_EXIT_S = _workers.QUIET_AFTER_EXIT_S = 0.0
"""
LAUNCHER = """
write = _workers._write_all

def slow_write(*arguments):
    asked.wait(60)
    write(*arguments)

_workers._write_all = slow_write
sys.exit(_workers.run_workers([_workers.Worker(3, sys.argv[1:], os.environ)]))
"""
ENTRY = """
class Logs:
    lines = []

    def add(self, line, stdtype):
        asked.wait(60)
        self.lines.append(line.text)

code = _child.Child(sys.argv[1:], os.environ, ".", Logs()).wait()
print(*Logs.lines, sep="\\n")
sys.exit(code)
"""


def run(script: str, command: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", HELD_UP + script, "sh", "-c", command],
        env={**os.environ, "DET_RUNTIME": "process"},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("script", "mark"), [(LAUNCHER, "[rank=3] "), (ENTRY, "")], ids=["launcher", "entry"]
)
def test_the_last_lines_are_copied(tmp_path: Path, script: str, mark: str) -> None:
    done = run(script, "echo one; echo two; echo three; exit 4", tmp_path)
    assert done.stdout == "".join(f"{mark}{line}\n" for line in ("one", "two", "three"))
    assert done.returncode == 4, done.stderr


@pytest.mark.parametrize("script", [LAUNCHER, ENTRY], ids=["launcher", "entry"])
def test_a_daemon_that_keeps_the_pipe_open_is_not_waited_for(tmp_path: Path, script: str) -> None:
    daemon = "import os; print(os.getpid(), file=open('pid', 'w')); import time; time.sleep(600)"
    starts = f'{sys.executable} -c "{daemon}" & until test -s pid; do sleep 0.02; done; exit 5'
    try:
        assert run(script, starts, tmp_path).returncode == 5
    finally:
        os.kill(int((tmp_path / "pid").read_text()), 9)


def test_what_was_read_counts_until_more_is_asked_for() -> None:
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
