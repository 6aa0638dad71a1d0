"""The Docker engine that tests start. Runs share it, and the last run that uses it ends it.

A plugin of pytest. A process that uses the engine holds a shared lock, which the kernel releases however the process
ends. `DET_TEST_KEEP_DOCKER=1` keeps the engine. An engine that no run has started is never ended.
"""

import fcntl
import os
import signal
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.cache import cache_folder, only_one
from tests.support.processes import alive, eventually

KEEP = "DET_TEST_KEEP_DOCKER"
START_LOCK = "docker-engine"  # held while an engine starts or ends
_END_S = 60.0
# Numbers of open files: an unclosed file object would cause a warning.
_users: list[int] = []


def folder() -> Path:
    path = cache_folder() / "docker"
    path.mkdir(parents=True, exist_ok=True)
    return path


def url() -> str:
    return f"unix://{folder()}/engine.sock"


def pid_file() -> Path:
    return folder() / "dockerd.pid"


def use() -> None:
    """Lock the engine against its end until this process ends."""
    if not _users:
        users = _open_users()
        fcntl.flock(users, fcntl.LOCK_SH)
        _users.append(users)


def note_start() -> None:
    """Store whether the last run that uses the engine ends it."""
    if os.environ.get(KEEP):
        _ends().unlink(missing_ok=True)
    else:
        _ends().touch()


def end() -> str:
    """End the engine unless another run uses it; return a sentence about that, or ''."""
    while _users:
        os.close(_users.pop())
    if os.environ.get(KEEP) or not _ends().exists():
        return ""
    with only_one(START_LOCK):
        if not _is_unused():
            return "other test runs still use the Docker engine; the last of them ends it"
        _ends().unlink(missing_ok=True)
        pid = _pid()
        return "" if pid is None else _terminate(pid)


def _ends() -> Path:
    return folder() / "engine.ends"


def _open_users() -> int:
    return os.open(folder() / "engine.users", os.O_RDWR | os.O_CREAT, 0o600)


def _is_unused() -> bool:
    users = _open_users()
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(users)
    return True


def _pid() -> int | None:
    """Return the process of the engine, or None if it has ended. Another process may have its number by now."""
    try:
        pid = int(pid_file().read_text())
        command = Path(f"/proc/{pid}/cmdline").read_text()
    except (OSError, ValueError):
        return None
    return pid if str(pid_file()) in command and alive(pid) else None


def _terminate(pid: int) -> str:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    if eventually(lambda: not alive(pid), _END_S):
        return f"ended the Docker engine that the tests had started ({KEEP}=1 keeps it)"
    return f"the Docker engine of the tests, process {pid}, does not end"


class EnginePlugin:
    def __init__(self) -> None:
        self._sentence = ""

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionfinish(self) -> Generator[None, None, None]:
        """End the engine after the workers have ended and processes in containers were looked for."""
        yield
        self._sentence = end()

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self._sentence:
            terminalreporter.write_line(self._sentence)


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(EnginePlugin(), "det-own-engine")
