"""Run a program that serves a port, report when it is ready, and forward signals to it."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import Callable, Mapping, Optional, Sequence

from determined._task_session import bounded_task_session, task_session
from determined.common.exit_status import INVALID_CONTAINER
from determined.common.failures import Failure
from determined.common.http import APIError, MasterUnreachableError, Session
from determined.exec import _exit_reason

_LOOK_S = 0.25
_PORT_WAIT_S = 60.0
# The pause before a failed report is repeated. Each attempt itself takes some seconds.
_AGAIN_S = 15.0
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class NotInstalled(Failure):
    """The task's image lacks the program to run."""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def is_process() -> bool:
    """Return whether this task runs as a process on its machine, without an image."""
    return os.environ.get("DET_RUNTIME") == "process"


def host() -> str:
    """Return the address to serve on: the loopback address on a machine's own network, all addresses in a container."""
    return os.environ.get("DET_SERVICE_HOST") or ("127.0.0.1" if is_process() else "0.0.0.0")


def wait_for_port(port: int, timeout_s: float = _PORT_WAIT_S) -> None:
    """Wait until the port is free, because tasks of a machine may share its network."""
    deadline = time.monotonic() + timeout_s
    is_logged = False
    while not _is_free(port):
        if time.monotonic() > deadline:
            raise Failure(f"port {port} is in use on this machine", "launch it again")
        if not is_logged:
            say(f"port {port} is in use on this machine; waiting for it")
            is_logged = True
        time.sleep(_LOOK_S)


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind((host(), port))
        except OSError:
            return False
    return True


def is_listening(port: int) -> bool:
    """Return whether a program listens on the port. On Linux this opens no connection, which the program would log."""
    listening = f":{port:04X}".encode()
    is_known = False
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table, "rb") as f:
                rows = [line.split() for line in f.readlines()[1:]]
        except OSError:
            continue
        is_known = True
        if any(row[1].endswith(listening) and row[3] == b"0A" for row in rows):
            return True
    return False if is_known else _accepts_connections(port)


def _accepts_connections(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


class Service:
    """A running program. A thread waits until it serves its port and then calls `look` periodically."""

    def __init__(
        self,
        command: Sequence[str],
        port: int,
        env: Optional[Mapping[str, str]] = None,
        *,
        look: Optional[Callable[[Session], None]] = None,
        every_s: float = 30.0,
        details: Optional[Mapping[str, str]] = None,
    ) -> None:
        """Start the program. When it serves its port, report `details` to the cluster."""
        self._port = port
        self._details = details
        self._look = look
        self._every_s = every_s
        self._ended = threading.Event()
        self._process = subprocess.Popen(list(command), env=None if env is None else dict(env))
        for number in _FORWARDED:
            signal.signal(number, self._forward)
        self._watcher = threading.Thread(target=self._watch, name="watch", daemon=True)
        self._watcher.start()

    def wait(self) -> int:
        code = self._process.wait()
        self._ended.set()
        self._watcher.join(_LOOK_S)
        return code if code >= 0 else 128 - code

    def _forward(self, number: int, _frame: object) -> None:
        if self._process.poll() is None:
            self._process.send_signal(number)

    def _watch(self) -> None:
        while not is_listening(self._port):
            if self._ended.wait(_LOOK_S):
                return
        session = bounded_task_session()
        while not _report(session, "ready", self._details):
            if self._ended.wait(_AGAIN_S):
                return
        while self._look is not None and not self._ended.wait(self._every_s):
            try:
                self._look(session)
            except (OSError, ValueError, APIError, MasterUnreachableError) as e:
                say(f"cannot report whether this task is idle: {e}")


def report_waiting() -> None:
    """Report to the cluster that this task waits for data to show."""
    _report(task_session(), "waiting")


def _report(session: Session, state: str, details: Optional[Mapping[str, str]] = None) -> bool:
    """Report a state to the cluster. Return whether the report succeeded."""
    try:
        session.post(f"/api/v1/allocations/{os.environ['DET_ALLOCATION_ID']}/{state}", details)
    except (OSError, ValueError, APIError, MasterUnreachableError) as e:
        say(f"cannot report to the cluster that this task is {state}: {e}")
        return False
    return True


def run(main: Callable[[], int]) -> int:
    """Run a program's main function. Print a one-line message for a `Failure`."""
    try:
        return main()
    except Failure as e:
        reason = f"{e.cause}: {e.hint}" if e.hint else e.cause
        _exit_reason.record(reason)
        say(reason)
        return INVALID_CONTAINER if isinstance(e, NotInstalled) else 1
