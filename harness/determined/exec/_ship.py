"""Ship log lines to the agent's gateway from a background thread.

The agent may be away, for example during an upgrade, or may reject lines because its disk is full. Lines wait in
memory meanwhile. When the buffer is full, the oldest lines are dropped and counted.
"""

import collections
import contextlib
import json
import os
import re
import sys
import threading
import time
import uuid
from typing import Any, Deque, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence

from determined._task_session import bounded_task_session
from determined.common.connections import pauses
from determined.common.http import APIError, MasterUnreachableError, Session

MAX_BATCH = 1000
MAX_WAITING = 200_000
MAX_WAITING_BYTES = 64 * 1024 * 1024
ENTRY_BYTES = 400  # the overhead of a line, without its text
GATHER_S = 0.01
POST_PERIOD_S = 1.0
BURST = 8
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 5.0
PATIENCE_S = (
    3600.0  # for one batch: an agent that fails on some lines must not block later lines forever
)
LAST_PAUSE_S = 1.0  # while the process only waits for its last lines
# Client errors after which a retry may succeed.
TRY_AGAIN = frozenset({408, 425, 429})

Entry = Dict[str, Any]

MAX_LINE_BYTES = 8192
_BREAK = re.compile(rb"\r\n|\n|\r")
# horovodrun and mpirun add their own prefix before the rank.
_PREFIX = re.compile(
    r"(?:(?:\[[\d,]+\]<std(?:out|err)>:)?\[rank=(?P<rank>\d+)\] )?"
    r"(?:(?P<level>TRACE|DEBUG|INFO|WARNING|ERROR|CRITICAL): )?"
)


class Line(NamedTuple):
    text: str
    rank: Optional[int]
    level: Optional[str]


class LineSplitter:
    """Splits output into lines that end with \\n, \\r or both. Progress bars redraw with \\r. Long lines are cut."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> Iterator[Line]:
        lines = _BREAK.split(self._rest + chunk)
        # A \r at the end of a chunk may be the first half of \r\n, so keep it until the next byte is known.
        if chunk.endswith(b"\r"):
            lines.pop()
            lines[-1] += b"\r"
        self._rest = lines.pop()
        for line in lines:
            yield from _cut(line)
        while len(self._rest) > MAX_LINE_BYTES:
            head, self._rest = self._rest[:MAX_LINE_BYTES], self._rest[MAX_LINE_BYTES:]
            yield _parse(head)

    def end(self) -> Iterator[Line]:
        rest, self._rest = self._rest.rstrip(b"\r"), b""
        if rest:
            yield from _cut(rest)


def _cut(line: bytes) -> Iterator[Line]:
    for start in range(0, max(len(line), 1), MAX_LINE_BYTES):
        yield _parse(line[start : start + MAX_LINE_BYTES])


def _parse(line: bytes) -> Line:
    text = line.decode("utf-8", "replace")
    prefix = _PREFIX.match(text)
    if prefix is None or not prefix.end():
        return Line(text, None, None)
    rank = int(prefix["rank"]) if prefix["rank"] else None
    level = f"LOG_LEVEL_{prefix['level']}" if prefix["level"] else None
    return Line(text[prefix.end() :], rank, level)


class LogShipper:
    """Ships lines in batches of up to 1,000 with one POST a second. Short bursts are sent at once.

    With bursts, the first lines of a task appear without delay.
    """

    def __init__(self, session: Session, metadata: Mapping[str, Any]) -> None:
        self.session = session
        self._metadata = dict(metadata)
        self._changed = threading.Condition()
        self._waiting: Deque[Entry] = collections.deque()
        self._waiting_bytes = 0
        self._sending = 0
        self._dropped = 0
        self._failure = "there was no time"
        self._closed = False
        self._over = threading.Event()
        self._tokens = float(BURST)
        self._refilled = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="log-shipper", daemon=True)
        self._thread.start()

    def add(self, line: Line, stdtype: str) -> None:
        entry = {
            **self._metadata,
            "timestamp": _format_now(),
            "log": line.text + "\n",
            "source": "task",
        }
        entry["stdtype"] = stdtype
        if line.rank is not None:
            entry["rank_id"] = line.rank
        if line.level is not None:
            entry["level"] = line.level
        with self._changed:
            self._waiting.append(entry)
            self._waiting_bytes += _size(entry)
            while len(self._waiting) > MAX_WAITING or self._waiting_bytes > MAX_WAITING_BYTES:
                self._pop_oldest()
                self._dropped += 1
            self._changed.notify()

    def say(self, text: str, level: str = "LOG_LEVEL_INFO") -> None:
        """Log a message of the entry script itself, like a line of the task."""
        if (
            "DET_RUNTIME" not in os.environ
        ):  # otherwise the agent would ship the printed line a second time
            print(text, flush=True)
        self.add(Line(text, None, level), "stdout")

    def close(self, timeout_s: float) -> None:
        """Ship the remaining lines for at most `timeout_s`, and print the number of lines that were not sent."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(timeout_s)
        self._over.set()
        with self._changed:
            unsent = self._sending + len(self._waiting)
        if unsent:
            _print_unsent(unsent, self._failure)

    def _run(self) -> None:
        while not self._over.is_set():
            batch = self._next_batch()
            if not batch:
                return
            self._send(batch)

    def _next_batch(self) -> List[Entry]:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            self._changed.wait_for(self._is_due, self._pause())
            self._spend_token()
            count = min(len(self._waiting), MAX_BATCH)
            batch = [self._pop_oldest() for _ in range(count)]
            self._sending = count
            if self._dropped:
                batch.insert(0, self._drop_notice(batch))
            return batch

    def _pop_oldest(self) -> Entry:
        entry = self._waiting.popleft()
        self._waiting_bytes -= _size(entry)
        return entry

    def _is_due(self) -> bool:
        return self._closed or len(self._waiting) >= MAX_BATCH

    def _pause(self) -> float:
        now = time.monotonic()
        self._tokens = min(BURST, self._tokens + (now - self._refilled) / POST_PERIOD_S)
        self._refilled = now
        return GATHER_S if self._tokens >= 1 else (1 - self._tokens) * POST_PERIOD_S

    def _spend_token(self) -> None:
        self._pause()
        self._tokens = max(0.0, self._tokens - 1)

    def _drop_notice(self, after: Sequence[Entry]) -> Entry:
        text = f"{self._dropped} log lines were dropped: they could not be sent in time\n"
        self._dropped = 0
        return {
            **self._metadata,
            "timestamp": after[0]["timestamp"] if after else _format_now(),
            "log": text,
            "source": "task",
            "level": "LOG_LEVEL_WARNING",
        }

    def _send(self, batch: List[Entry]) -> None:
        """Send lines until they are accepted, rejected permanently, an hour has passed, or `close` gave up."""
        once = {"Idempotency-Key": str(uuid.uuid4())}
        patient_until = time.monotonic() + PATIENCE_S
        for pause_s in pauses(FIRST_PAUSE_S, LONGEST_PAUSE_S):
            try:
                self.session.post("/api/v1/task/logs", {"logs": batch}, headers=once)
                break
            except MasterUnreachableError as e:
                self._failure = str(e)
            except APIError as e:
                if e.status < 500 and e.status not in TRY_AGAIN:
                    _print_unsent(len(batch), str(e))
                    break
                self._failure = str(e)
                pause_s = max(pause_s, e.retry_after_s)
            self._rest(pause_s)
            if self._over.is_set():
                return
            if time.monotonic() > patient_until:
                with self._changed:
                    self._dropped += len(batch)
                break
        with self._changed:
            self._sending = 0

    def _rest(self, pause_s: float) -> None:
        """Wait for the next try. When the process ends, retry at once and with short pauses."""
        with self._changed:
            if not self._closed:
                self._changed.wait_for(lambda: self._closed, pause_s)
                return
        self._over.wait(min(pause_s, LAST_PAUSE_S))


def metadata_from(env: Mapping[str, str]) -> Dict[str, Any]:
    """Return the fields of every line of this container."""
    configured = json.loads(env.get("DET_TASK_LOGGING_METADATA") or "{}")
    ids = {
        "task_id": env.get("DET_TASK_ID"),
        "allocation_id": env.get("DET_ALLOCATION_ID"),
        "agent_id": env.get("DET_AGENT_ID"),
        "container_id": env.get("DET_CONTAINER_ID"),
    }
    return {**{k: v for k, v in ids.items() if v}, **configured}


def start_shipping(env: Mapping[str, str]) -> LogShipper:
    return LogShipper(bounded_task_session(env, retries=0), metadata_from(env))


def _size(entry: Entry) -> int:
    return sys.getsizeof(entry["log"]) + ENTRY_BYTES


def _print_unsent(count: int, reason: str) -> None:
    # sys.stderr may be shipped itself. On a full disk, its buffered text would change the exit status.
    with contextlib.suppress(OSError):
        os.write(
            2, f"{count} log lines could not be shipped: {reason}\n".encode("utf-8", "replace")
        )


def _format_now() -> str:
    now = time.time_ns()
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now // 1_000_000_000))
    return f"{whole}.{now % 1_000_000_000:09d}Z"
