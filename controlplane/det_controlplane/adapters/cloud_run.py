"""Call the other services of a deployment on Google Cloud, and switch the schedules that call them.

google-auth is imported at first use."""

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
# A service answers at the end of its turn.
_TURN_S = 300.0
_MOST_CALLS = 16
# Pauses before a call is repeated. The network of a starting service may need a minute. Cloud Run answers 429 or 500
# until then.
_RETRY_AFTER_S = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)

Authorise = Callable[[str], Mapping[str, str]]


class Services:
    """Start the service of a topic by calling it. Wakes of topics without a service are dropped.

    `wake` returns after the call was sent, because Cloud Run may throttle this process after its own response."""

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
                    return  # the schedule calls the service later
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
        """Call the service of a topic once. Return whether it completed a turn."""
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
        """Call a service and return the status of its answer, which it sends at the end of its turn."""
        address = urlsplit(url)
        kind = {"https": http.client.HTTPSConnection, "http": http.client.HTTPConnection}
        connection = kind[address.scheme](address.netloc, timeout=_CONNECT_S)
        try:
            headers = self._authorise(url)
            connection.connect()
            connection.sock.settimeout(_TURN_S)
            connection.request("POST", "/", b"{}", {"Content-Type": "application/json", **headers})
            # Later wakes must call again, because the service may have read the database already.
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
    """Identity tokens of this service's account for other services. Google's metadata server issues them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._credentials: dict[str, Any] = {}

    def headers(self, audience: str) -> Mapping[str, str]:
        from google.auth.compute_engine import IDTokenCredentials
        from google.auth.transport.requests import Request

        headers: dict[str, str] = {}
        with self._lock:
            request = Request()
            if audience not in self._credentials:
                self._credentials[audience] = IDTokenCredentials(
                    request, audience, use_metadata_identity_endpoint=True
                )
            self._credentials[audience].before_request(request, "POST", audience, headers)
        return headers


class SchedulerJobs:
    """Jobs of Cloud Scheduler that the control plane pauses and resumes. Names are full resource names."""

    def __init__(
        self, names: Sequence[str], *, endpoint: str = _SCHEDULER, session: Any = None
    ) -> None:
        self._names = names
        self._endpoint = endpoint
        self._fixed_session = session

    def switch(self, *, on: bool) -> None:
        """Resume or pause all jobs that are not in this state yet."""
        state, verb = ("ENABLED", "resume") if on else ("PAUSED", "pause")
        for name in self._names:
            if self._request("GET", name)["state"] != state:
                self._request("POST", f"{name}:{verb}")
                log.info("the schedule %s is %s", name, state)

    def _request(self, method: str, path: str) -> Any:
        answer = self._session.request(method, f"{self._endpoint}/{path}", timeout=10)
        answer.raise_for_status()
        return answer.json()

    @cached_property
    def _session(self) -> Any:
        if self._fixed_session is not None:
            return self._fixed_session
        import google.auth
        from google.auth.transport.requests import AuthorizedSession

        credentials, _ = google.auth.default(scopes=[_SCOPE])
        return AuthorizedSession(credentials)
