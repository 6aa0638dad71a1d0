"""Start user code, forward signals to it, copy its output, and return its exit status."""

import os
import signal
import subprocess
import sys
import threading
import time
from typing import IO, Callable, List, Mapping, Optional, Sequence

from determined.common.blocking import hearing_signals
from determined.common.pipes import PipeReader
from determined.exec._ship import LineSplitter, LogShipper

FORWARDED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGWINCH")
QUIET_AFTER_EXIT_S = 2.0
_POLL_S = 0.05


class OutputCopier(threading.Thread):
    """Passes the lines of one stream to the shipper, and optionally copies the bytes to a stream of this process."""

    def __init__(
        self, source: IO[bytes], target_fd: Optional[int], stdtype: str, logs: LogShipper
    ) -> None:
        super().__init__(name=f"copy-{stdtype}", daemon=True)
        self.source = PipeReader(source)
        self._target_fd = target_fd
        self._stdtype = stdtype
        self._logs = logs
        self.last_read = time.monotonic()

    def run(self) -> None:
        splitter = LineSplitter()
        while True:
            chunk = self.source.read()
            self.last_read = time.monotonic()
            for line in splitter.feed(chunk) if chunk else splitter.end():
                self._logs.add(line, self._stdtype)
            if not chunk:
                return
            if self._target_fd is not None:
                _write_all(self._target_fd, chunk)


class Child:
    """A running command. Its output is shipped as log lines."""

    def __init__(
        self,
        command: Sequence[str],
        env: Mapping[str, str],
        cwd: str,
        logs: LogShipper,
        pass_fds: Sequence[int] = (),
    ) -> None:
        self._process = subprocess.Popen(
            list(command),
            env=dict(env),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=tuple(pass_fds),
        )
        self._copiers = self._start_copiers(logs)

    def send_signal(self, number: int) -> None:
        try:
            os.kill(self._process.pid, number)
        except ProcessLookupError:
            pass

    def wait(self) -> int:
        """Wait until the command exits. Return its status as a shell does: 128 + n after signal n."""
        code = hearing_signals(lambda: _reap(self._process))
        self._drain()
        return code if code >= 0 else 128 - code

    def _start_copiers(self, logs: LogShipper) -> List[OutputCopier]:
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        # With DET_RUNTIME the agent ships this process's own output, so copying would duplicate the lines.
        copies = "DET_RUNTIME" not in os.environ
        copiers = [
            OutputCopier(self._process.stdout, 1 if copies else None, "stdout", logs),
            OutputCopier(self._process.stderr, 2 if copies else None, "stderr", logs),
        ]
        for copier in copiers:
            copier.start()
        return copiers

    def _drain(self) -> None:
        """Read the remaining output. A daemon that keeps the pipe open does not keep the task running."""
        exited = time.monotonic()
        for copier in self._copiers:
            while copier.is_alive():
                quiet_s = time.monotonic() - max(copier.last_read, exited)
                if quiet_s > QUIET_AFTER_EXIT_S and not copier.source.is_behind():
                    break
                copier.join(_POLL_S)


class SignalForwarder:
    """Forwards signals to the child. Before the child is started, signals end this process."""

    def __init__(self) -> None:
        self._child: Optional[Child] = None
        self._early: Optional[List[int]] = None
        for name in FORWARDED:
            signal.signal(getattr(signal, name), self._on_signal)

    def start(self, build: Callable[[], Child]) -> Child:
        """Start a child. Signals that arrive during the start are sent to it afterwards."""
        self._early = []
        self._child = build()
        for number in self._early:
            self._child.send_signal(number)
        return self._child

    def _on_signal(self, number: int, _frame: object) -> None:
        if self._child is not None:
            self._child.send_signal(number)
        elif self._early is not None:
            self._early.append(number)
        elif number != signal.SIGWINCH:
            sys.exit(128 + number)


def _reap(process: "subprocess.Popen[bytes]") -> int:
    """Wait for the child. As process 1 of a container, also reap orphaned processes."""
    if os.getpid() != 1:
        return process.wait()
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == process.pid:
            is_killed = os.WIFSIGNALED(status)
            process.returncode = -os.WTERMSIG(status) if is_killed else os.WEXITSTATUS(status)
            return process.returncode


def _write_all(fd: int, chunk: bytes) -> None:
    view = memoryview(chunk)
    try:
        while view:
            view = view[os.write(fd, view) :]
    except OSError:
        # The reader of this process's output is gone. The shipped copy is unaffected.
        pass
