"""Store reports of trials on disk until the control plane has them. An outage delays reports but blocks no trial.

The metrics, checkpoints, progress, states and early exits of a container are delivered one by one in order, also by the
next process of this agent. The container gets the control plane's answer. During an outage it is answered at once.
"""

import json
import logging
import re
import shutil
import threading
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

from determined.common.connections import pauses
from determined.common.http import error_from

from det_agent.identity import write_atomically
from det_agent.report_delivery import Answer, ReportDelivery, TrialReport
from det_agent.runtime import ContainerKey
from det_agent.upstream import FIRST_PAUSE_S, LONGEST_PAUSE_S

MAX_REPORT_BYTES = 16 * 1024**2
MAX_QUEUE_BYTES = 256 * 1024**2
ANSWER_WAIT_S = 5.0
# The answers of these routes have no content, and repeated requests have no effect.
_ROUTES = re.compile(
    r"/api/v1/(checkpoints|trials/[^/]+/"
    r"(metrics|training_metrics|validation_metrics|progress|runner/metadata|early_exit))"
)

# Errors of report files that were damaged by a power loss or deleted.
_LOST = (FileNotFoundError, IsADirectoryError, ValueError, KeyError, TypeError, AttributeError)

_log = logging.getLogger(__name__)
OnRefusal = Callable[[ContainerKey, str], None]


class QueueFull(Exception):
    """The queue of a container has reached its disk limit, or the disk is full."""


def is_trial_report(method: str, path: str) -> bool:
    return method == "POST" and _ROUTES.fullmatch(path) is not None


class TrialReports:
    """The report queues of this agent's containers. Each has its own folder."""

    def __init__(self, folder: Path, delivery: ReportDelivery, on_refusal: OnRefusal) -> None:
        self._folder = folder
        self._delivery = delivery
        self._on_refusal = on_refusal
        self._lock = threading.Lock()
        self._queues: dict[str, _Queue] = {}

    def start(self) -> None:
        """Continue with the undelivered reports of an earlier process of this agent."""
        for folder in sorted(self._folder.iterdir()):
            paths = sorted(folder.glob("*.report"))
            try:
                key = next(
                    (candidate for candidate in map(_key_in, paths) if candidate is not None), None
                )
                if key is not None:
                    self._queue(key)
                    continue
            except OSError as e:  # the next process of the agent may read them
                _log.error("reports in %s cannot be read now: %s", folder, e)
                continue
            if paths:
                _log.error("%d reports in %s are damaged, and lost", len(paths), folder)
            shutil.rmtree(folder, ignore_errors=True)

    def put(self, key: ContainerKey, report: TrialReport) -> Answer | None:
        """Store a report and return its answer, or None if the answer takes too long for the container.

        Raises QueueFull.
        """
        try:
            queue = self._queue(key)
        except OSError as e:
            raise QueueFull from e
        return queue.put(report)

    def last_of(self, key: ContainerKey) -> int:
        """Return the number of a container's newest report."""
        with self._lock:
            queue = self._queues.get(key.place)
        return queue.last if queue is not None else 0

    def wait_until_delivered(
        self, key: ContainerKey, last: int, timeout_s: float | None = None
    ) -> bool:
        """Wait for the answers to a container's reports up to a number."""
        with self._lock:
            queue = self._queues.get(key.place)
        return queue is None or queue.wait_until_delivered(last, timeout_s)

    def finish(self, key: ContainerKey) -> None:
        """Deliver all reports of an ended container, however long this takes."""
        self.wait_until_delivered(key, self.last_of(key))
        with self._lock:
            queue = self._queues.pop(key.place, None)
        if queue is not None:
            queue.close()

    def stop(self) -> None:
        """Stop the delivery. The next process delivers the remaining reports."""
        with self._lock:
            queues = list(self._queues.values())
        for queue in queues:
            queue.stop()

    def _queue(self, key: ContainerKey) -> "_Queue":
        with self._lock:
            if key.place not in self._queues:
                folder = self._folder / key.place
                self._queues[key.place] = _Queue(key, folder, self._delivery, self._on_refusal)
            return self._queues[key.place]


class _Queue:
    """The reports of one container.

    If the queue is empty, the thread that adds a report delivers it. Otherwise the queue's own thread delivers it."""

    def __init__(
        self, key: ContainerKey, folder: Path, delivery: ReportDelivery, on_refusal: OnRefusal
    ) -> None:
        self._key = key
        self._folder = folder
        self._delivery = delivery
        self._on_refusal = on_refusal
        lock = threading.Lock()
        self._changed, self._handed_over = threading.Condition(lock), threading.Condition(lock)
        self._stopped = threading.Event()
        folder.mkdir(exist_ok=True)
        paths = sorted(folder.glob("*.report"))
        self._waiting = deque(int(path.stem) for path in paths)
        self._sizes = {int(path.stem): path.stat().st_size for path in paths}
        self._bytes = sum(self._sizes.values())
        self.last = self._waiting[-1] if paths else 0
        self._answers: dict[int, Answer | None] = {}
        self._delivered_by_sender = 0  # the number of the report that its own thread delivers
        self._in_outage = False
        threading.Thread(target=self._run, name="trial-reports", daemon=True).start()

    def put(self, report: TrialReport) -> Answer | None:
        idempotency = {"Idempotency-Key": str(uuid.uuid4())} | dict(report.headers)
        report = replace(report, headers=idempotency)
        with self._changed:
            number = self._write(report)
            is_first = len(self._waiting) == 1 and not self._in_outage
            if not is_first or not self._delivery.answers_soon(report):
                return self._wait_for_answer(number)
            self._delivered_by_sender = number
        answer = None
        try:
            answer = self._delivery.deliver(self._key, report, ANSWER_WAIT_S)
        finally:
            with self._changed:
                self._delivered_by_sender = 0
                if answer is None:
                    self._in_outage = True
                    self._changed.notify_all()
                else:
                    self._remove(number)
                if self._waiting:
                    self._handed_over.notify()
        return answer

    def _wait_for_answer(self, number: int) -> Answer | None:
        """Let the queue's thread deliver a report. Wait for its answer for a limited time."""
        self._answers[number] = None
        self._handed_over.notify()
        answered = self._changed.wait_for(
            lambda: self._answers[number] or self._in_outage or self._stopped.is_set(),
            ANSWER_WAIT_S,
        )
        if not answered:
            # The next reports then do not wait.
            self._in_outage = True
        return self._answers.pop(number)

    def wait_until_delivered(self, last: int, timeout_s: float | None) -> bool:
        with self._changed:
            return self._changed.wait_for(
                lambda: not self._waiting or self._waiting[0] > last, timeout_s
            )

    def stop(self) -> None:
        self._stopped.set()
        with self._changed:
            self._changed.notify_all()
            self._handed_over.notify()

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _write(self, report: TrialReport) -> int:
        number = self.last + 1
        size = len(report.body)
        if size > MAX_REPORT_BYTES or self._bytes + size > MAX_QUEUE_BYTES:
            raise QueueFull
        head = {"key": asdict(self._key), "target": report.target, "headers": report.headers}
        content = json.dumps(head).encode() + b"\n" + report.body
        try:
            write_atomically(self._path(number), content)
        except OSError as e:
            raise QueueFull from e
        self.last = number
        self._sizes[number] = len(content)
        self._bytes += len(content)
        self._waiting.append(number)
        return number

    def _run(self) -> None:
        while not self._stopped.is_set():
            with self._changed:
                self._handed_over.wait_for(
                    lambda: (
                        (self._waiting and not self._delivered_by_sender) or self._stopped.is_set()
                    )
                )
            if not self._stopped.is_set():
                self._deliver(self._waiting[0])

    def _deliver(self, number: int) -> None:
        """Send a report until it is answered or the agent stops."""
        report = self._read(number)
        if report is None:
            return
        for pause_s in pauses(FIRST_PAUSE_S, LONGEST_PAUSE_S):
            answer = self._delivery.deliver(self._key, report)
            if answer is not None or self._stopped.is_set():
                break
            with self._changed:
                self._in_outage = True
                self._changed.notify_all()
            if self._stopped.wait(pause_s):
                return
        if answer is None:
            return
        with self._changed:
            self._in_outage = False
            awaited = number in self._answers
            if awaited:
                self._answers[number] = answer
        if answer.status >= 300 and not awaited:
            # Log the refusal before the report counts as delivered, because the last log lines are sent after that.
            self._log_refusal(report, answer)
        with self._changed:
            self._remove(number)

    def _read(self, number: int) -> TrialReport | None:
        """Return a report, or None if it is lost or the agent stops first."""
        for pause_s in pauses(FIRST_PAUSE_S, LONGEST_PAUSE_S):
            try:
                return _read(self._path(number))[1]
            except _LOST as e:
                self._lose(number, e)
                return None
            except OSError as e:
                _log.warning("a report of container %s cannot be read now: %s", self._key.id, e)
                if self._stopped.wait(pause_s):
                    break
        return None

    def _lose(self, number: int, error: Exception) -> None:
        """Continue after a report that was deleted or damaged."""
        _log.error("a report of container %s is lost: %s", self._key.id, error)
        self._on_refusal(self._key, f"A report that was kept during an outage is lost: {error}")
        with self._changed:
            self._remove(number)

    def _remove(self, number: int) -> None:
        """Delete the oldest report, which was answered or is lost."""
        try:
            self._path(number).unlink(missing_ok=True)
        except OSError as e:  # the next process sends it again with the same key
            _log.warning("a report that was delivered cannot be deleted: %s", e)
        self._bytes -= self._sizes.pop(number)
        self._waiting.popleft()
        self._changed.notify_all()

    def _log_refusal(self, report: TrialReport, answer: Answer) -> None:
        cause = error_from(answer.status, answer.body)
        self._on_refusal(
            self._key,
            f"The cluster refused a report that was kept during an outage (POST {report.target}): {cause}",
        )

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:012d}.report"


def _read(path: Path) -> tuple[ContainerKey, TrialReport]:
    head, _, body = path.read_bytes().partition(b"\n")
    fields = json.loads(head)
    return ContainerKey.from_json(fields["key"]), TrialReport(
        fields["target"], fields["headers"], body
    )


def _key_in(path: Path) -> ContainerKey | None:
    """Return the container of a report, or None if the file is damaged. Raises OSError."""
    try:
        return _read(path)[0]
    except _LOST:
        return None
