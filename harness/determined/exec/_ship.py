"""Ship log lines to the agent's gateway from a background thread."""

import collections
import json
import os
import sys
import threading
import time
import uuid
from typing import Any, Deque, Dict, List, Mapping, Optional

from determined._task_session import task_session
from determined.common.http import APIError, MasterUnreachableError, Session
from determined.exec._lines import Line

MAX_BATCH = 1000
MAX_WAITING = 200_000
GATHER_S = 0.01
POST_PERIOD_S = 1.0
BURST = 8
RETRY_DELAYS_S = (0, 1, 5, 10, *(15,) * 7, *(60,) * 9)

Entry = Dict[str, Any]


class LogShipper:
    """Ships lines in batches of up to 1,000, one POST a second; a short burst may go at once.

    The burst is what makes a task's first lines appear without delay.
    """

    def __init__(self, session: Session, metadata: Mapping[str, Any]) -> None:
        self.session = session
        self._metadata = dict(metadata)
        self._changed = threading.Condition()
        self._waiting: Deque[Entry] = collections.deque()
        self._dropped = 0
        self._closed = False
        self._tokens = float(BURST)
        self._refilled = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="log-shipper", daemon=True)
        self._thread.start()

    def add(self, line: Line, stdtype: str) -> None:
        entry = {**self._metadata, "timestamp": _now(), "log": line.text + "\n", "source": "task"}
        entry["stdtype"] = stdtype
        if line.rank is not None:
            entry["rank_id"] = line.rank
        if line.level is not None:
            entry["level"] = line.level
        with self._changed:
            if len(self._waiting) >= MAX_WAITING:
                self._waiting.popleft()
                self._dropped += 1
            self._waiting.append(entry)
            self._changed.notify()

    def say(self, text: str, level: str = "LOG_LEVEL_INFO") -> None:
        """Log a message of the entry itself like a line of the task."""
        if "DET_RUNTIME" not in os.environ:  # an agent would ship what is printed a second time
            print(text, flush=True)
        self.add(Line(text, None, level), "stdout")

    def close(self, timeout_s: float) -> None:
        """Ship what is left, for at most `timeout_s`."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while True:
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
            batch = [self._waiting.popleft() for _ in range(count)]
            if self._dropped:
                batch.append(self._drop_notice())
            return batch

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

    def _drop_notice(self) -> Entry:
        text = f"{self._dropped} log lines were dropped: they came faster than they could be sent\n"
        self._dropped = 0
        return {
            **self._metadata,
            "timestamp": _now(),
            "log": text,
            "source": "task",
            "level": "LOG_LEVEL_WARNING",
        }

    def _send(self, batch: List[Entry]) -> None:
        error: Optional[Exception] = None
        once = {"Idempotency-Key": str(uuid.uuid4())}
        for delay_s in RETRY_DELAYS_S:
            if delay_s and self._wait_unless_closed(delay_s):
                break
            try:
                self.session.post("/api/v1/task/logs", {"logs": batch}, headers=once)
                return
            except MasterUnreachableError as e:
                error = e
            except APIError as e:
                error = e
                if e.status < 500:
                    break
        print(f"{len(batch)} log lines could not be shipped: {error}", file=sys.stderr, flush=True)

    def _wait_unless_closed(self, delay_s: float) -> bool:
        with self._changed:
            return self._closed and not self._changed.wait(min(delay_s, 1))


def metadata_from(env: Mapping[str, str]) -> Dict[str, Any]:
    """Return the fields that every line of this container carries."""
    given = json.loads(env.get("DET_TASK_LOGGING_METADATA") or "{}")
    own = {
        "task_id": env.get("DET_TASK_ID"),
        "allocation_id": env.get("DET_ALLOCATION_ID"),
        "agent_id": env.get("DET_AGENT_ID"),
        "container_id": env.get("DET_CONTAINER_ID"),
    }
    return {**{k: v for k, v in own.items() if v}, **given}


def start_shipping(env: Mapping[str, str]) -> LogShipper:
    return LogShipper(task_session(env, retries=0), metadata_from(env))


def _now() -> str:
    now = time.time_ns()
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now // 1_000_000_000))
    return f"{whole}.{now % 1_000_000_000:09d}Z"
