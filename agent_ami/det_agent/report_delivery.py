"""Deliver reports of trials. Small metrics reports that arrive during a request are sent together in the next one.

A report that arrives while no request is in progress is sent immediately."""

import http.client
import json
import logging
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from det_controlplane.core.agent_protocol import MetricsReport, ReportsAnswer, ReportsRequest
from determined.common.connections import RETRY_STATUSES, Connections

from det_agent.runtime import ContainerKey
from det_agent.upstream import end_to_end

PATH = "/agents/v1/reports"
DELIVERY_TIMEOUT_S = 60.0
TRY_AGAIN = frozenset({*RETRY_STATUSES, 408, 425, 429})
# Further reports do not wait for a request that takes longer than this.
PATIENCE_S = 0.1
# The control plane accepts shared reports only if they are small and not for a searcher.
MAX_SHARED_BYTES = 8 * 1024
_METRICS = re.compile(r"/api/v1/trials/([0-9]{1,9})/metrics")
_UNKNOWN_ROUTE = (404, 405)
# Time after which an unknown route is tried again, because the control plane may have been upgraded.
ASK_AGAIN_S = 600.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrialReport:
    target: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes


_STORED = Answer(200, {"Content-Type": "application/json"}, b"{}")


def _make_locked_lock() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock


@dataclass(eq=False)
class _Waiting:
    """A report with a waiting thread. The thread continues when the report was sent or when it must send others."""

    report: MetricsReport
    outcome: str = ""  # empty: the report must be sent again
    to_send: "list[_Waiting]" = field(default_factory=list)
    called: threading.Lock = field(default_factory=_make_locked_lock)


class ReportDelivery:
    """Send the reports of all containers. Each call sends once, and its caller decides about retries."""

    def __init__(self, upstream: Connections, token: Callable[[], str]) -> None:
        """Create the delivery. `token` returns the agent's token, or '' before the agent has joined."""
        self._upstream, self._token = upstream, token
        self._lock = threading.Lock()
        self._waiting: list[_Waiting] = []
        self._in_progress: list[_Waiting] | None = None  # the newest request
        self._started_at = 0.0
        self._shares_from = 0.0

    def deliver(
        self, key: ContainerKey, report: TrialReport, within_s: float = DELIVERY_TIMEOUT_S
    ) -> Answer | None:
        """Send a report. Return None if it was not answered in time and must be sent again."""
        metrics = self._shareable(key, report)
        if metrics is None:
            return self._send_alone(report, within_s)
        own = _Waiting(metrics)
        to_send = self._wait_for_turn(own, within_s)
        if to_send:
            try:
                self._send_together(to_send, within_s)
            finally:
                self._end(to_send, own)
        if own.outcome == "stored":
            return _STORED
        return self._send_alone(report, within_s) if own.outcome else None

    def answers_soon(self, report: TrialReport) -> bool:
        """Return whether the control plane answers without waiting for a searcher or other reports."""
        return _METRICS.fullmatch(report.target) is not None and _is_small(report)

    @property
    def waiting(self) -> int:
        """Return the number of reports that wait for the current request."""
        with self._lock:
            return len(self._waiting)

    def _shareable(self, key: ContainerKey, report: TrialReport) -> MetricsReport | None:
        """Return the report for a shared request, or None if it must be sent alone."""
        target = _METRICS.fullmatch(report.target)
        if target is None or not _is_small(report):
            return None
        names = {name.lower(): value for name, value in report.headers.items()}
        if "content-encoding" in names or not self._token() or time.monotonic() < self._shares_from:
            return None
        try:
            text = report.body.decode()
        except UnicodeDecodeError:
            return None
        trial_id, request_key = int(target[1]), names.get("idempotency-key", "")
        return MetricsReport(trial_id, key.session_token, request_key, text)

    def _wait_for_turn(self, own: _Waiting, within_s: float) -> list[_Waiting]:
        """Wait until the report was sent and return (). Or return the reports that this thread must send."""
        until = time.monotonic() + within_s
        with self._lock:
            self._waiting.append(own)
            if self._in_progress is None or time.monotonic() - self._started_at > PATIENCE_S:
                return self._start_request()
        while not own.called.acquire(timeout=PATIENCE_S):
            with self._lock:
                if own in self._waiting:
                    return self._start_request()
            if time.monotonic() > until:
                return []
        return own.to_send

    def _start_request(self) -> list[_Waiting]:
        """Take all waiting reports. There is at most one per container, because queues deliver one by one."""
        batch, self._waiting = self._waiting, []
        self._in_progress, self._started_at = batch, time.monotonic()
        return batch

    def _end(self, sent: list[_Waiting], own: _Waiting) -> None:
        """Wake the threads of the sent reports, and let one waiting thread send the next request."""
        with self._lock:
            if self._in_progress is sent:
                self._in_progress = None
                if self._waiting:
                    first = self._waiting[0]
                    first.to_send = self._start_request()
                    first.called.release()
        for each in sent:
            if each is not own:
                each.called.release()

    def _send_together(self, batch: Sequence[_Waiting], within_s: float) -> None:
        request = ReportsRequest(tuple(each.report for each in batch))
        headers = {
            "Authorization": f"Bearer {self._token()}",
            "Content-Type": "application/json",
        }
        body = json.dumps(request.as_json()).encode()
        answer = self._exchange(PATH, headers, body, within_s)
        if answer is None:
            return
        if answer.status in _UNKNOWN_ROUTE:
            self._shares_from = time.monotonic() + ASK_AGAIN_S
        for each, outcome in zip(batch, _outcomes(answer, len(batch)), strict=True):
            each.outcome = outcome

    def _send_alone(self, report: TrialReport, within_s: float) -> Answer | None:
        headers = end_to_end(report.headers) | {"Accept-Encoding": "identity"}
        return self._exchange(report.target, headers, report.body, within_s)

    def _exchange(
        self, target: str, headers: Mapping[str, str], body: bytes, within_s: float
    ) -> Answer | None:
        try:
            with self._upstream.exchange(
                "POST", target, headers, body, timeout_s=within_s, read_timeout_s=within_s
            ) as response:
                content = response.read()
        except (OSError, http.client.HTTPException) as e:
            _log.debug("a report waits (POST %s): %s", target, e)
            return None
        if response.status in TRY_AGAIN:
            return None
        return Answer(response.status, end_to_end(dict(response.getheaders())), content)


def _is_small(report: TrialReport) -> bool:
    return len(report.body) <= MAX_SHARED_BYTES and b'"validation"' not in report.body


def _outcomes(answer: Answer, count: int) -> Sequence[str]:
    """Return the outcome of each report. After an unclear answer, all reports are sent alone."""
    alone = ["alone"] * count
    if answer.status != 200:
        return alone
    try:
        outcomes = ReportsAnswer.from_json(json.loads(answer.body)).outcomes
    except (ValueError, TypeError, AttributeError):
        return alone
    return outcomes if len(outcomes) == count else alone
