"""Fail a run that leaves processes behind, and name them.

A plugin of pytest. Each process that a run starts, directly or not, inherits a variable with the run's id. Some
processes get environments of their own (containers do): those work below the run's temporary directories.

Not counted: the Docker engine of tests/support/docker.py, which runs share and tests/support/own_engine.py ends.
"""

import os
import signal
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import alive, eventually

# Tests take variables that begin with DET_ away from their children.
VARIABLE = "DETERMINED_TEST_RUN"
# Time for a process to end after a signal.
_GRACE_S = 10.0


@dataclass(frozen=True)
class Leftover:
    pid: int
    command: str


def leftovers(run: str, folder: Path | None = None) -> list[Leftover]:
    """Return living processes, other than this one, that carry a run's mark or use its directory."""
    found = []
    for pid in sorted(int(path.name) for path in Path("/proc").glob("[0-9]*")):
        if pid == os.getpid() or not alive(pid):
            continue
        place = Path(f"/proc/{pid}")
        try:
            is_leftover = _is_marked(place, run) or (folder is not None and _uses(place, folder))
            line = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if is_leftover:
            found.append(Leftover(pid, line.strip()))
    return found


def _is_marked(place: Path, run: str) -> bool:
    return f"{VARIABLE}={run}".encode() in (place / "environ").read_bytes().split(b"\0")


def _uses(place: Path, folder: Path) -> bool:
    """Tell whether a process works below the folder, or is in a container that mounts something of it."""
    if os.readlink(place / "cwd").startswith(f"{folder}/"):
        return True
    if os.readlink(place / "ns/mnt") == os.readlink("/proc/self/ns/mnt"):
        return False
    # The source of a mount is relative to its filesystem.
    filesystem = next(above for above in folder.parents if above.is_mount())
    return f"/{folder.relative_to(filesystem)}/" in (place / "mountinfo").read_text()


def without_mark() -> dict[str, str]:
    """Return the environment for a process that outlives the run on purpose."""
    return {name: value for name, value in os.environ.items() if name != VARIABLE}


def _end(processes: list[Leftover]) -> Iterator[str]:
    """Kill leftover processes, as the next run would find them; yield their descriptions."""
    for process in processes:
        yield f"process {process.pid}: {process.command[:300]}"
        try:
            os.kill(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


class LeftoversPlugin:
    def __init__(self, grace_s: float = _GRACE_S) -> None:
        self.run = uuid.uuid4().hex
        self.grace_s = grace_s
        self.found: list[str] = []
        os.environ[VARIABLE] = self.run

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Look when the workers of xdist have ended."""
        folder = _folder_of(session.config)
        eventually(lambda: not leftovers(self.run, folder), self.grace_s)
        self.found = list(_end(leftovers(self.run, folder)))
        if self.found and not session.exitstatus:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self.found:
            terminalreporter.section("FAILED: processes that the tests left behind, now killed")
            for line in self.found:
                terminalreporter.write_line(line, red=True)


def _folder_of(config: pytest.Config) -> Path | None:
    """Return the directory below which this run's temporary directories are, if it made one."""
    factory = getattr(config, "_tmp_path_factory", None)
    base: Path | None = getattr(factory, "_basetemp", None)
    return base


def pytest_configure(config: pytest.Config) -> None:
    if Path("/proc/self/environ").exists() and not hasattr(config, "workerinput"):
        config.pluginmanager.register(LeftoversPlugin(), "det-leftovers")
