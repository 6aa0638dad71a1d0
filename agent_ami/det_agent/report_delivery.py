"""Deliver reports of trials: small ones of metrics that come while a request with others is under way share the next.

One that comes alone goes at once, as a request of one."""

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
# A request that takes longer has no more reports wait for it.
PATIENCE_S = 0.1
# What the control plane takes together: small ones, and none for a searcher.
MAX_SHARED_BYTES = 8 * 1024
_METRICS = re.compile(r"/api/v1/trials/([0-9]{1,9})/metrics")
_UNKNOWN_ROUTE = (404, 405)
# When a control plane that did not know the route is asked for it again: it may have been upgraded.
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


def _locked() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock


@dataclass(eq=False)
class _Waiting:
    """A report whose thread waits; it is called when the report was sent, or to send what waits."""

    report: MetricsReport
    outcome: str = ""  # empty: to be sent again
    to_send: "list[_Waiting]" = field(default_factory=list)
    called: threading.Lock = field(default_factory=_locked)


class ReportDelivery:
    """Sends reports of all containers of this agent, once each: threads that deliver decide when to try again."""

    def __init__(self, upstream: Connections, token: Callable[[], str]) -> None:
        """Join requests by the agent's `token`, which is empty before it has one."""
        self._upstream, self._token = upstream, token
        self._lock = threading.Lock()
        self._waiting: list[_Waiting] = []
        self._under_way: list[_Waiting] | None = None  # the newest request
        self._began = 0.0
        self._shares_from = 0.0

    def deliver(
        self, key: ContainerKey, report: TrialReport, within_s: float = DELIVERY_TIMEOUT_S
    ) -> Answer | None:
        """Send a report; None when that is to be done again, as it is not answered in time."""
        metrics = self._shareable(key, report)
        if metrics is None:
            return self._send_alone(report, within_s)
        own = _Waiting(metrics)
        to_send = self._turn(own, within_s)
        if to_send:
            try:
                self._send_together(to_send, within_s)
            finally:
                self._end(to_send, own)
        if own.outcome == "stored":
            return _STORED
        return self._send_alone(report, within_s) if own.outcome else None

    def answers_soon(self, report: TrialReport) -> bool:
        """Return whether a report waits for nothing in the control plane: not for a searcher, nor for other reports."""
        return _METRICS.fullmatch(report.target) is not None and _is_small(report)

    @property
    def waiting(self) -> int:
        """Return how many reports wait for a request that is under way."""
        with self._lock:
            return len(self._waiting)

    def _shareable(self, key: ContainerKey, report: TrialReport) -> MetricsReport | None:
        """Return what a request with others would carry of a report; None for one that goes alone."""
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
        trial_id, once = int(target[1]), names.get("idempotency-key", "")
        return MetricsReport(trial_id, key.session_token, once, text)

    def _turn(self, own: _Waiting, within_s: float) -> list[_Waiting]:
        """Wait until a report is sent, then return nothing; or until its thread is to send those that are returned."""
        until = time.monotonic() + within_s
        with self._lock:
            self._waiting.append(own)
            if self._under_way is None or time.monotonic() - self._began > PATIENCE_S:
                return self._begin()
        while not own.called.acquire(timeout=PATIENCE_S):
            with self._lock:
                if own in self._waiting:
                    return self._begin()
            if time.monotonic() > until:
                return []
        return own.to_send

    def _begin(self) -> list[_Waiting]:
        """Take all that waits: one report of each container at most, since a queue delivers one by one."""
        taken, self._waiting = self._waiting, []
        self._under_way, self._began = taken, time.monotonic()
        return taken

    def _end(self, sent: list[_Waiting], own: _Waiting) -> None:
        """Let the threads of what was sent go on, and one that waits send the next."""
        with self._lock:
            if self._under_way is sent:
                self._under_way = None
                if self._waiting:
                    first = self._waiting[0]
                    first.to_send = self._begin()
                    first.called.release()
        for each in sent:
            if each is not own:
                each.called.release()

    def _send_together(self, taken: Sequence[_Waiting], within_s: float) -> None:
        request = ReportsRequest(tuple(each.report for each in taken))
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
        for each, outcome in zip(taken, _outcomes(answer, len(taken)), strict=True):
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
    """Return what became of each report: all are sent alone after an answer that does not tell."""
    alone = ["alone"] * count
    if answer.status != 200:
        return alone
    try:
        told = ReportsAnswer.from_json(json.loads(answer.body)).outcomes
    except (ValueError, TypeError, AttributeError):
        return alone
    return told if len(told) == count else alone
