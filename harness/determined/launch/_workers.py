"""Run several workers: prefix their output lines with the rank, and stop all of them if one fails."""

import os
import signal
import subprocess
import sys
import threading
from typing import IO, Callable, Dict, Literal, Mapping, NamedTuple, Optional, Sequence, Tuple

from determined.common.blocking import hearing_signals
from determined.common.pipes import PipeReader
from determined.launch._peers import Peers
from determined.launch._watch import LOST_PEER_STATUS, PeerWatch

GRACE_S = 15.0
QUIET_AFTER_EXIT_S = 1.0  # a worker's background processes may keep its pipes open forever
_LOOK_S = 0.05
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_BREAKS = (b"\n", b"\r")


class Worker(NamedTuple):
    """A process to run: a rank, or a node with lines that already have the ranks of its own workers."""

    rank: int
    command: Sequence[str]
    env: Mapping[str, str]
    what: Literal["rank", "node"] = "rank"


def replace_process(command: Sequence[str], env: Mapping[str, str]) -> int:
    """Replace this process by the command, because a single worker needs no supervisor. Return only on failure."""
    try:
        os.execvpe(command[0], list(command), dict(env))
    except FileNotFoundError:
        print(f"cannot start {command[0]!r}: not found", file=sys.stderr)
        return 127
    except PermissionError:
        print(f"cannot start {command[0]!r}: not executable", file=sys.stderr)
        return 126


def run_ranks(
    peers: Peers,
    command: Sequence[str],
    env_of: Callable[..., Mapping[str, str]],
    watch: Optional[PeerWatch] = None,
) -> int:
    """Run the command once for each rank of this container. A single rank replaces this process."""
    if peers.total == 1:
        return replace_process(command, env_of(peers, 0, 0))
    workers = [
        Worker(ranks["rank"], command, env_of(peers, **ranks)) for ranks in peers.local_ranks()
    ]
    return run_workers(workers, watch)


def run_workers(workers: Sequence[Worker], watch: Optional[PeerWatch] = None) -> int:
    """Start all workers and wait. If one fails, stop the others and return its status. Return 0 if all succeed.

    If `watch` loses another container, kill all workers, which may wait for it without end."""
    running: Dict[int, _Running] = {}

    def forward(number: int, _frame: object) -> None:
        _send_all(running, number)

    previous = {number: signal.signal(number, forward) for number in FORWARDED}
    try:
        for worker in workers:
            started = _Running(worker)
            running[started.pid] = started
        if watch is None:
            return _wait_for_all(running)
        watch.start(lambda: _send_all(running, signal.SIGKILL))
        status = _wait_for_all(running)
        watch.end()
        return LOST_PEER_STATUS if watch.has_lost_peer else status
    except OSError as e:
        print(f"cannot start a worker: {e}", file=sys.stderr)
        _stop(running)
        return 127
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def prefix_lines(source: PipeReader, target_fd: int, prefix: bytes, lock: threading.Lock) -> None:
    """Copy whole lines, each with a prefix. \\r also ends a line, because progress bars use it."""
    rest = b""
    while True:
        chunk = source.read()
        rest += chunk
        cut = max(rest.rfind(mark) for mark in _BREAKS) + 1
        ready, rest = rest[:cut], rest[cut:]
        if not chunk and rest:
            ready, rest = ready + rest + b"\n", b""
        if ready:
            lines = b"".join(prefix + line for line in ready.splitlines(keepends=True))
            with lock:
                _write_all(target_fd, lines)
        if not chunk:
            return


class _Running:
    """A started worker and the threads that copy its output."""

    _lock = threading.Lock()

    def __init__(self, worker: Worker) -> None:
        self.rank, self.what = worker.rank, worker.what
        self._process = subprocess.Popen(
            list(worker.command),
            env=dict(worker.env),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # The shell of a node would not forward signals to its processes, so signal the whole group.
            start_new_session=worker.what == "node",
        )
        self._copiers = [
            self._copy(self._process.stdout, 1),
            self._copy(self._process.stderr, 2),
        ]

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, number: int) -> None:
        try:
            if self.what == "node":
                os.killpg(self.pid, number)
            else:
                os.kill(self.pid, number)
        except ProcessLookupError:
            pass

    def ended(self, status: int) -> int:
        """Handle a status from `waitpid`. Return the exit status as a shell reports it."""
        code = 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        self._process.returncode = code
        for source, copier in self._copiers:
            copier.join(QUIET_AFTER_EXIT_S)
            while copier.is_alive() and source.is_behind():
                copier.join(_LOOK_S)
        return code

    def _copy(
        self, pipe: "IO[bytes] | None", target_fd: int
    ) -> Tuple[PipeReader, threading.Thread]:
        assert pipe is not None
        source = PipeReader(pipe)
        prefix = f"[rank={self.rank}] ".encode() if self.what == "rank" else b""
        arguments = (source, target_fd, prefix, self._lock)
        thread = threading.Thread(target=prefix_lines, args=arguments, daemon=True)
        thread.start()
        return source, thread


def _wait_for_all(running: Dict[int, _Running]) -> int:
    while running:
        pid, status = hearing_signals(lambda: os.waitpid(-1, 0))
        if pid not in running:
            continue
        worker = running.pop(pid)
        code = worker.ended(status)
        if code != 0:
            if running:
                others = ", ".join(str(w.rank) for w in running.values())
                what = worker.what
                print(
                    f"{what} {worker.rank} failed with status {code}; stopping {what}s {others}",
                    file=sys.stderr,
                    flush=True,
                )
            _stop(running)
            return code
    return 0


def _stop(running: Dict[int, _Running]) -> None:
    """Terminate the workers, and kill them after a grace period."""
    _send_all(running, signal.SIGTERM)
    force = threading.Timer(GRACE_S, _send_all, (running, signal.SIGKILL))
    force.daemon = True
    force.start()
    while running:
        pid, status = hearing_signals(lambda: os.waitpid(-1, 0))
        if pid in running:
            running.pop(pid).ended(status)
    force.cancel()


def _send_all(running: Mapping[int, _Running], number: int) -> None:
    for worker in list(running.values()):
        worker.send(number)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(fd, view) :]
    except OSError:
        # A full disk loses these lines. Raising would stop reading, and the worker would block on a full pipe.
        pass
