"""Limit the rate of a task's log lines. Lines above the limit are dropped and counted.

The other lines are searched for the patterns of the task's log policies, within a limit of processor time."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from det_controlplane.core import patterns

from det_agent.runtime import ContainerKey
from det_agent.spool import Spool, SpoolFull
from det_agent.task_logs import TaskLine, agent_line

# A task may write this many seconds' worth of lines at once after a silence.
BURST_S = 60.0
# A task that exceeded the limit is paused for so long, which limits the number of lines about dropped lines.
PAUSE_S = 1.0
# The share of a processor for a task's patterns, and the seconds that it may use at once after a silence.
SEARCH_RATE, SEARCH_S = 0.1, 6.0
_HOW_TO_RAISE = (
    "To raise it, set log_lines_per_second and log_bytes_per_second in the agent's configuration;"
    " for rented machines, in agent_config_file_contents of the pool"
)
_UNSEARCHED = "the patterns of the log policies take too long: some lines of this task are not searched for them"


@dataclass
class _Allowance:
    """The remaining lines, bytes and search time of a task. `since` is the time of the calculation."""

    lines: float
    bytes: float
    since: float
    search_s: float = SEARCH_S
    dropped: int = 0
    dropped_at: str = ""  # time of the first dropped line
    is_unsearched_reported: bool = False


class LogLimits:
    """Append the lines of containers to the spool up to the limits of their tasks."""

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
        """Store the lines within the task's limit. Raises SpoolFull."""
        with self._lock:
            task = self._refilled(key)
            before = replace(task)
            about, passing = self._passing(key, task, lines)
            after = replace(task)
        start = self._processor_clock()
        try:
            # The lock is not held, because a slow search must not block other tasks.
            self._spool.append([*about, *self._searched(key, task, passing)], request_key)
        except SpoolFull:
            # The sender repeats these lines, and they are counted and searched again.
            with self._lock:
                task.lines += before.lines - after.lines
                task.bytes += before.bytes - after.bytes
                # Other lines of the task may have reported the number meanwhile.
                task.dropped = max(0, task.dropped + before.dropped - after.dropped)
                task.search_s += self._processor_clock() - start
                task.is_unsearched_reported = before.is_unsearched_reported
            raise

    def ended(self, key: ContainerKey) -> None:
        """Report the number of dropped lines and delete the task's state. Raises SpoolFull."""
        with self._lock:
            task = self._tasks.pop(key.task_id, None)
        if task is not None and task.dropped:
            self._spool.append([self._about(key, task)])

    def _passing(
        self, key: ContainerKey, task: _Allowance, lines: Sequence[TaskLine]
    ) -> tuple[list[bytes], list[TaskLine]]:
        """Return a notice about dropped lines, if one is due, and the lines within the limits."""
        if not self._lines_s:
            return [], list(lines)
        notices: list[bytes] = []
        passing: list[TaskLine] = []
        if task.dropped:
            if task.lines < self._lines_s * PAUSE_S or task.bytes < self._bytes_s * PAUSE_S:
                task.dropped += len(lines)
                return notices, passing
            notices.append(self._about(key, task))
            task.dropped = 0
        for index, line in enumerate(lines):
            if task.lines < 1 or task.bytes < len(line.encoded):
                task.dropped = len(lines) - index
                task.dropped_at = line.timestamp()
                break
            task.lines -= 1
            task.bytes -= len(line.encoded)
            passing.append(line)
        return notices, passing

    def _searched(
        self, key: ContainerKey, task: _Allowance, lines: Sequence[TaskLine]
    ) -> Iterator[bytes]:
        if not key.log_patterns:
            yield from (line.encoded for line in lines)
            return
        for line in lines:
            yield line.with_matched(self._matched(key, task, line))
        if task.search_s <= 0 and not task.is_unsearched_reported:
            task.is_unsearched_reported = True
            yield agent_line(key, self._agent_id, _UNSEARCHED, "WARNING")

    def _matched(self, key: ContainerKey, task: _Allowance, line: TaskLine) -> list[str]:
        """Return the patterns that match a line. Patterns without remaining time are skipped."""
        matched: list[str] = []
        start = self._processor_clock()
        for pattern in key.log_patterns:
            if task.search_s <= 0:
                break
            if patterns.matches(pattern, line.text):
                matched.append(pattern)
            now = self._processor_clock()
            task.search_s -= now - start
            start = now
        return matched

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

    def _about(self, key: ContainerKey, task: _Allowance) -> bytes:
        """Return the notice that takes the place of dropped lines: it has the time of the first one."""
        rate = f"{self._lines_s:,g} lines or {self._bytes_s / 1024:,g} KiB per second"
        lines = "1 line" if task.dropped == 1 else f"{task.dropped:,} lines"
        text = f"{lines} dropped here: log rate limit ({rate}) exceeded. {_HOW_TO_RAISE}"
        return agent_line(key, self._agent_id, text, "WARNING", task.dropped_at)
