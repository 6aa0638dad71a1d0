"""Keeps a few processes alive: started in order, restarted with a pause, stopped in reverse."""

import logging
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

log = logging.getLogger("det.supervisor")

_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.05, 30.0
_SETTLED_S = 20.0  # who lived so long starts afresh
_STOP_S = 25.0  # agents let trials save a last checkpoint


class Supervised(Protocol):
    """A process that the supervisor keeps alive."""

    @property
    def name(self) -> str: ...

    @property
    def pid(self) -> int | None: ...

    def start(self) -> None: ...

    def running(self) -> bool: ...

    def stop(self) -> None: ...


class Program:
    """A command with its output in a file. `ties` keeps a pipe to its standard input open: a program
    that watches it learns of our death, however sudden."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log_file: Path,
        *,
        environment: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
        ties: bool = False,
    ) -> None:
        self.name = name
        self._command = tuple(command)
        self._log_file = log_file
        self._environment = environment or {}
        self._pass_fds = tuple(pass_fds)
        self._ties = ties
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def start(self) -> None:
        with self._log_file.open("ab") as output:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE if self._ties else subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self._environment},
                pass_fds=self._pass_fds,
                start_new_session=True,
            )

    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            log.warning("%s (process %d) did not stop in time: killing it", self.name, process.pid)
            process.kill()
            process.wait()
        if process.stdin is not None:
            with suppress(OSError):
                process.stdin.close()


@dataclass
class _Watch:
    kept: Supervised
    started_at: float = 0.0
    pause_s: float = _FIRST_PAUSE_S
    due: float | None = None  # when to start it again


@dataclass
class Supervisor:
    """Keeps processes alive; calls `changed` after every start and death."""

    changed: Callable[[], None] = lambda: None
    _watches: list[_Watch] = field(default_factory=list)
    _stopping: bool = False

    def keep(self, kept: Supervised) -> None:
        """Start a process, and start it again whenever it ends."""
        watch = _Watch(kept)
        self._watches.append(watch)
        self._start(watch)

    def drop(self, name: str) -> None:
        for watch in [w for w in self._watches if w.kept.name == name]:
            self._watches.remove(watch)
            watch.kept.stop()
        self._tell()

    def kept(self) -> list[Supervised]:
        return [w.kept for w in self._watches]

    def run(
        self, on_hangup: Callable[[], None], on_hearing: Callable[[], None] = lambda: None
    ) -> None:
        """Tend the processes until SIGTERM or SIGINT; SIGHUP calls `on_hangup`. Sleeps in between. Before `on_hearing`
        is called, a signal would end this process but not its child processes."""
        with _signals() as arrived:
            on_hearing()
            # A process that died before its signal could be seen.
            pause_s = self._tend()
            while True:
                signals = arrived(pause_s)
                if signals & {signal.SIGTERM, signal.SIGINT}:
                    break
                if signal.SIGHUP in signals:
                    on_hangup()
                pause_s = self._tend()

    def stop(self) -> None:
        """Stop all programs that are left, the last started first."""
        for watch in reversed(self._watches):
            watch.kept.stop()
        self._watches.clear()
        self._tell()

    def stop_together(self, names: set[str]) -> None:
        """Stop several independent processes at the same time."""
        watches = [w for w in self._watches if w.kept.name in names]
        threads = [threading.Thread(target=w.kept.stop) for w in watches]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._watches = [w for w in self._watches if w.kept.name not in names]

    def _tell(self) -> None:
        """Call `changed`. If it cannot write, as on a full disk, the running processes continue."""
        try:
            self.changed()
        except OSError as e:
            log.warning("what runs could not be noted: %s", e)

    def _tend(self) -> float | None:
        """Record ended processes and start processes that are due. Return the seconds until the next start."""
        for watch in self._watches:
            if watch.due is None and not watch.kept.running():
                self._died(watch)
            if watch.due is not None and watch.due <= time.monotonic():
                self._start(watch)
        due = [w.due for w in self._watches if w.due is not None]
        return max(min(due) - time.monotonic(), 0.0) if due else None

    def _start(self, watch: _Watch) -> None:
        watch.started_at, watch.due = time.monotonic(), None
        try:
            watch.kept.start()
        except Exception as e:
            log.error("%s did not start: %s", watch.kept.name, e)
        self._tell()

    def _died(self, watch: _Watch) -> None:
        if time.monotonic() - watch.started_at > _SETTLED_S:
            watch.pause_s = _FIRST_PAUSE_S
        log.warning("%s ended; starting it again in %.1f s", watch.kept.name, watch.pause_s)
        watch.due = time.monotonic() + watch.pause_s
        watch.pause_s = min(watch.pause_s * 2, _LAST_PAUSE_S)
        watch.kept.stop()
        self._tell()


@contextmanager
def _signals() -> Iterator[Callable[[float | None], set[int]]]:
    """Yield a function that sleeps until a signal or the timeout, and returns the signals that came."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    os.set_blocking(reading, False)
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
    before = {n: signal.signal(n, lambda *_: None) for n in numbers}
    woken_before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)

    def arrived(timeout: float | None) -> set[int]:
        select.select([reading], [], [], timeout)
        try:
            return set(os.read(reading, 4096))
        except BlockingIOError:
            return set()

    try:
        yield arrived
    finally:
        signal.set_wakeup_fd(woken_before)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(reading)
        os.close(writing)
