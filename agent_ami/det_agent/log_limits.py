"""Keep floods of log lines from the control plane: a task has a rate, and what is above it is left out and counted.

What is left is searched for the patterns of the task's log policies, as long as the task has time for that."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from det_controlplane.core import patterns

from det_agent.runtime import ContainerKey
from det_agent.spool import Spool, SpoolFull
from det_agent.task_logs import TaskLine, agent_line

# How much a task may write at once, after a silence: what it may in so many seconds.
BURST_S = 60.0
# Once it wrote too much, it is not heard for so long, so that there are few lines about lines.
PAUSE_S = 1.0
# The part of a processor that a task's patterns may take, and how much at once after a silence.
SEARCH_RATE, SEARCH_S = 0.1, 6.0
_UNSEARCHED = "the patterns of the log policies take too long: some lines of this task are not searched for them"


@dataclass
class _Allowance:
    """The lines, the bytes and the time of searching that a task has left; `since` is when they were counted."""

    lines: float
    bytes: float
    since: float
    search_s: float = SEARCH_S
    left_out: int = 0
    is_unsearched_told: bool = False


class LogLimits:
    """Puts the lines of containers into the spool, as far as their tasks may write so many."""

    def __init__(
        self,
        spool: Spool,
        agent_id: str,
        lines_s: float,
        bytes_s: float,
        clock: Callable[[], float] = time.monotonic,
        processor_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self._spool, self._agent_id = spool, agent_id
        self._lines_s, self._bytes_s = lines_s, bytes_s
        self._clock, self._processor_clock = clock, processor_clock
        self._lock = threading.Lock()
        self._tasks: dict[str, _Allowance] = {}

    def append(self, key: ContainerKey, lines: Sequence[TaskLine], request_key: str = "") -> None:
        """Store the lines that the task may still write. Raises SpoolFull."""
        with self._lock:
            task = self._refilled(key)
            before = replace(task)
            about, passing = self._passing(key, task, lines)
            after = replace(task)
        began = self._processor_clock()
        try:
            # Outside of the lock: a costly search holds up no other task.
            self._spool.append([*about, *self._searched(key, task, passing)], request_key)
        except SpoolFull:
            # These lines come again, and are counted and searched again.
            with self._lock:
                task.lines += before.lines - after.lines
                task.bytes += before.bytes - after.bytes
                # Other lines of the task may have told the number meanwhile.
                task.left_out = max(0, task.left_out + before.left_out - after.left_out)
                task.search_s += self._processor_clock() - began
                task.is_unsearched_told = before.is_unsearched_told
            raise

    def ended(self, key: ContainerKey) -> None:
        """Tell what was left out, and forget the task. Raises SpoolFull."""
        with self._lock:
            task = self._tasks.pop(key.task_id, None)
        if task is not None and task.left_out:
            self._spool.append([self._about(key, task.left_out)])

    def _passing(
        self, key: ContainerKey, task: _Allowance, lines: Sequence[TaskLine]
    ) -> tuple[list[bytes], list[TaskLine]]:
        """Return a line about those that were left out before, if it is time for it, and the lines that pass."""
        if not self._lines_s:
            return [], list(lines)
        about: list[bytes] = []
        passing: list[TaskLine] = []
        if task.left_out:
            if task.lines < self._lines_s * PAUSE_S or task.bytes < self._bytes_s * PAUSE_S:
                task.left_out += len(lines)
                return about, passing
            about.append(self._about(key, task.left_out))
            task.left_out = 0
        for index, line in enumerate(lines):
            if task.lines < 1 or task.bytes < len(line.encoded):
                task.left_out = len(lines) - index
                break
            task.lines -= 1
            task.bytes -= len(line.encoded)
            passing.append(line)
        return about, passing

    def _searched(
        self, key: ContainerKey, task: _Allowance, lines: Sequence[TaskLine]
    ) -> Iterator[bytes]:
        if not key.log_patterns:
            yield from (line.encoded for line in lines)
            return
        for line in lines:
            yield line.with_matched(self._found(key, task, line))
        if task.search_s <= 0 and not task.is_unsearched_told:
            task.is_unsearched_told = True
            yield agent_line(key, self._agent_id, _UNSEARCHED, "WARNING")

    def _found(self, key: ContainerKey, task: _Allowance, line: TaskLine) -> list[str]:
        """Return the patterns that a line matches, of those for which there is time."""
        found: list[str] = []
        began = self._processor_clock()
        for pattern in key.log_patterns:
            if task.search_s <= 0:
                break
            if patterns.matches(pattern, line.text):
                found.append(pattern)
            now = self._processor_clock()
            task.search_s -= now - began
            began = now
        return found

    def _refilled(self, key: ContainerKey) -> _Allowance:
        now = self._clock()
        full_lines, full_bytes = self._lines_s * BURST_S, self._bytes_s * BURST_S
        task = self._tasks.setdefault(key.task_id, _Allowance(full_lines, full_bytes, now))
        passed_s = now - task.since
        task.lines = min(full_lines, task.lines + passed_s * self._lines_s)
        task.bytes = min(full_bytes, task.bytes + passed_s * self._bytes_s)
        task.search_s = min(SEARCH_S, task.search_s + passed_s * SEARCH_RATE)
        task.since = now
        return task

    def _about(self, key: ContainerKey, left_out: int) -> bytes:
        rate = f"{self._lines_s:g} lines or {self._bytes_s / 1024:g} KiB a second"
        lines = "1 line" if left_out == 1 else f"{left_out} lines"
        text = f"{lines} left out: the task writes more than {rate}"
        return agent_line(key, self._agent_id, text, "WARNING")
