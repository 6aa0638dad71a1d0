"""The other services of a deployment on Google Cloud, and the schedules that call them.

google-auth is loaded when it is needed."""

import http.client
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

log = logging.getLogger("det.cloud_run")

_SCHEDULER = "https://cloudscheduler.googleapis.com/v1"
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_CONNECT_S, _SENDING_S = 5.0, 3.0
# A call lasts as long as the turn that it began.
_TURN_S = 300.0
_MOST_CALLS = 16
# Pauses before a call is repeated. A service that starts may be without its network for a minute, and Cloud Run
# answers 429 or 500 until then.
_RETRY_AFTER_S = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)

Authorise = Callable[[str], Mapping[str, str]]


class Services:
    """Starts the service of a topic by calling it. Wakes of topics without a service are dropped.

    A wake returns when the call is sent: this process may be slowed down as soon as it has answered its own request."""

    def __init__(
        self,
        urls: Mapping[str, str],
        authorise: Authorise | None = None,
        retry_after_s: Sequence[float] = _RETRY_AFTER_S,
    ) -> None:
        self._urls = urls
        self._authorise = authorise or IdentityTokens().headers
        self._retry_after_s = retry_after_s
        self._lock = threading.Lock()
        self._unsent: dict[str, threading.Event] = {}
        self._calls = 0

    @property
    def topics(self) -> Sequence[str]:
        return tuple(self._urls)

    def wake(self, topic: str) -> None:
        if topic not in self._urls:
            return
        with self._lock:
            sent = self._unsent.get(topic)
            if sent is None:
                if self._calls >= _MOST_CALLS:
                    return  # the schedule comes anyway
                sent = self._unsent[topic] = threading.Event()
                self._calls += 1
                threading.Thread(target=self._call, args=(topic, sent), daemon=True).start()
        sent.wait(_SENDING_S)

    def _call(self, topic: str, sent: threading.Event) -> None:
        try:
            for pause_s in (0.0, *self._retry_after_s):
                time.sleep(pause_s)
                if self._is_answered(topic, sent):
                    return
        finally:
            with self._lock:
                self._calls -= 1

    def _is_answered(self, topic: str, sent: threading.Event) -> bool:
        """Call the service of a topic once, and return whether it took a turn."""
        url = self._urls[topic]
        try:
            status = self._post(url, lambda: self._forget(topic, sent))
        except Exception as e:
            log.warning("the service %s could not be started: %s", url, e)
            return False
        finally:
            self._forget(topic, sent)
        if status != 200:
            log.warning("the service %s answered %d", url, status)
        return status == 200

    def _post(self, url: str, sending: Callable[[], None]) -> int:
        """Call a service and return the status of its answer, which comes when its turn is over."""
        address = urlsplit(url)
        kind = {"https": http.client.HTTPSConnection, "http": http.client.HTTPConnection}
        connection = kind[address.scheme](address.netloc, timeout=_CONNECT_S)
        try:
            headers = self._authorise(url)
            connection.connect()
            connection.sock.settimeout(_TURN_S)
            connection.request("POST", "/", b"{}", {"Content-Type": "application/json", **headers})
            # What is woken from now on must call again: the turn may have looked before.
            sending()
            answer = connection.getresponse()
            answer.read()
            return int(answer.status)
        finally:
            connection.close()

    def _forget(self, topic: str, sent: threading.Event) -> None:
        with self._lock:
            if self._unsent.get(topic) is sent:
                del self._unsent[topic]
        sent.set()


class IdentityTokens:
    """Tokens of this service's own account, for the services that it calls, by Google's metadata server."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._credentials: dict[str, Any] = {}

    def headers(self, audience: str) -> Mapping[str, str]:
        from google.auth.compute_engine import IDTokenCredentials
        from google.auth.transport.requests import Request

        found: dict[str, str] = {}
        with self._lock:
            request = Request()
            if audience not in self._credentials:
                self._credentials[audience] = IDTokenCredentials(
                    request, audience, use_metadata_identity_endpoint=True
                )
            self._credentials[audience].before_request(request, "POST", audience, found)
        return found


class SchedulerJobs:
    """Jobs of Cloud Scheduler that the control plane switches, by their full names."""

    def __init__(
        self, names: Sequence[str], *, endpoint: str = _SCHEDULER, session: Any = None
    ) -> None:
        self._names = names
        self._endpoint = endpoint
        self._given = session

    def switch(self, *, on: bool) -> None:
        """Resume or pause every job that is in the other state."""
        state, verb = ("ENABLED", "resume") if on else ("PAUSED", "pause")
        for name in self._names:
            if self._asked("GET", name)["state"] != state:
                self._asked("POST", f"{name}:{verb}")
                log.info("the schedule %s is %s", name, state)

    def _asked(self, method: str, path: str) -> Any:
        answer = self._session.request(method, f"{self._endpoint}/{path}", timeout=10)
        answer.raise_for_status()
        return answer.json()

    @cached_property
    def _session(self) -> Any:
        if self._given is not None:
            return self._given
        import google.auth
        from google.auth.transport.requests import AuthorizedSession

        credentials, _ = google.auth.default(scopes=[_SCOPE])
        return AuthorizedSession(credentials)
