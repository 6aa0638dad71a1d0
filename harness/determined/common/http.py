"""A small HTTP client without dependencies, because the harness must not add packages to a user's image."""

import contextlib
import gzip
import http.client
import json
import logging
import socket
import ssl
import time
import uuid
from typing import Any, Dict, Iterator, Mapping, Optional, Sequence, Tuple, Union
from urllib.parse import urlencode

from determined.common.certificates import UntrustedCertificate
from determined.common.connections import RETRY_STATUSES, Connections, pause_asked, pauses
from determined.common.failures import Failure

log = logging.getLogger(__name__)

# The name under which the headers of a response have the number of lost responses before it.
_LOST = "determined-lost-responses"
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 10.0
_SILENT_S = 3.0  # longer waits are logged
_LONGEST_EXCERPT = 300  # characters of a response in a message; gateways send whole pages
QueryValue = Union[str, int, float, bool, None, Sequence[Union[str, int]]]


class RequestFailed(Exception):
    """A request that brought no usable response. Programs catch it as `BadRequestException`."""


class APIError(RequestFailed):
    """A response with status 300 or above: the status and the server's message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_after_s = 0.0
        # The response to an earlier try of the same request was lost, so the server may have executed it already.
        self.after_lost_response = False


class UnauthenticatedError(APIError):
    pass


class SignInFailed(Failure, UnauthenticatedError):
    """Raised without a session, or with a wrong password."""

    def __init__(self, cause: str, hint: str = "") -> None:
        UnauthenticatedError.__init__(self, 401, cause)
        self.cause = cause
        self.hint = hint


class ForbiddenError(APIError):
    pass


class NotFoundError(APIError):
    pass


class ConflictError(APIError):
    pass


class MasterUnreachableError(RequestFailed):
    """The server did not respond, after all retries."""


class UntrustedMasterError(MasterUnreachableError):
    """The server's certificate is not trusted. The request was not sent."""


_TOO_LARGE = (
    "the request is larger than the host of the cluster takes (6 MB on AWS Lambda, 32 MB on Cloud Run):"
    " send less, or in parts"
)
_BY_STATUS = {
    401: UnauthenticatedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
}


def error_from(status: int, body: bytes) -> APIError:
    """Read the message from the error formats that Determined's servers use."""
    text = body.decode("utf-8", "replace").strip()
    if status == 413 and '"error"' not in text:  # from a gateway, not from the server
        return APIError(status, _TOO_LARGE)
    try:
        obj = json.loads(text)
        inner = obj.get("error", obj) if isinstance(obj, dict) else obj
        message = inner.get("error") or inner.get("message") if isinstance(inner, dict) else inner
    except ValueError:
        message = text
    return _BY_STATUS.get(status, APIError)(status, str(message or f"HTTP {status}"))


def encode_query(params: Optional[Mapping[str, QueryValue]]) -> str:
    pairs = []
    for key, value in (params or {}).items():
        if value is None:
            continue
        values = value if isinstance(value, (list, tuple)) else [value]
        for item in values:
            pairs.append((key, str(item).lower() if isinstance(item, bool) else str(item)))
    return urlencode(pairs)


class Absence:
    """The time during which the agent of a container does not answer. Sessions with an `Absence` wait for its end.

    The sessions of a process may share one. It logs the beginning and the end of each absence once.
    """

    def __init__(self) -> None:
        self._since: Optional[float] = None
        self._is_logged = False

    def note(self, server: str, reason: str) -> None:
        now = time.monotonic()
        since = self._since = now if self._since is None else self._since
        if now - since > _SILENT_S and not self._is_logged:
            self._is_logged = True
            log.warning(
                "the agent of this machine does not answer (%s: %s); requests wait for its return",
                server,
                reason,
            )

    def end(self) -> None:
        since, self._since = self._since, None
        if since is not None and self._is_logged:
            self._is_logged = False
            away_s = time.monotonic() - since
            log.warning("the agent of this machine answers again after %.0f s", away_s)


# OpenSSL's names for an answer that is not TLS.
_PLAIN_HTTP = (
    "WRONG_VERSION_NUMBER",
    "HTTP_REQUEST",
    "PACKET_LENGTH_TOO_LONG",
    "RECORD_LAYER_FAILURE",
)


def _is_away(error: Exception) -> bool:
    """Return whether an error means that the server is down, rather than that it interrupted a request."""
    broken_off = (ConnectionResetError, ConnectionAbortedError, BrokenPipeError, ssl.SSLError)
    return isinstance(error, OSError) and not isinstance(error, broken_off)


class Session:
    """Requests to one server, with retries where they can help.

    Every POST carries its own Idempotency-Key, which stays the same in all retries. If the response to a request
    that took effect is lost, the retry does not repeat the effect.
    """

    def __init__(
        self,
        base_url: str,
        headers: Optional[Mapping[str, str]] = None,
        *,
        retries: int = 5,
        timeout_s: Optional[float] = 60.0,
        cert_file: Optional[str] = None,
        verify: bool = True,
        server_hostname: Optional[str] = None,
        fingerprint: Optional[str] = None,
        patient_at_first: bool = True,
        absence: Optional[Absence] = None,
    ) -> None:
        """Make a session. With `patient_at_first=False`, a server that never answered is reported without retries.
        With an `absence`, the session waits without limit while the server is unreachable or silent for `timeout_s`.
        With an `absence`, it waits without limit while the server is unreachable or silent for `timeout_s`.
        """
        self.base_url = base_url.rstrip("/")
        self.options: Dict[str, Any] = {
            "retries": retries,
            "timeout_s": timeout_s,
            "cert_file": cert_file,
            "verify": verify,
            "server_hostname": server_hostname,
            "fingerprint": fingerprint,
            "patient_at_first": patient_at_first,
            "absence": absence,
        }
        self.headers: Dict[str, str] = {"Accept-Encoding": "gzip", **(headers or {})}
        self.retries = retries
        self.timeout_s = timeout_s
        self._patient = patient_at_first
        self._absence = absence
        self._connections = Connections(
            base_url,
            cert_file=cert_file,
            verify=verify,
            server_hostname=server_hostname,
            fingerprint=fingerprint,
        )

    def get(self, path: str, params: Optional[Mapping[str, QueryValue]] = None, **kw: Any) -> Any:
        return self.request("GET", path, params=params, **kw)

    def post(self, path: str, body: Any = None, **kw: Any) -> Any:
        return self.request("POST", path, body=body, **kw)

    def put(self, path: str, body: Any = None, **kw: Any) -> Any:
        return self.request("PUT", path, body=body, **kw)

    def patch(self, path: str, body: Any = None, **kw: Any) -> Any:
        return self.request("PATCH", path, body=body, **kw)

    def delete(self, path: str, body: Any = None, **kw: Any) -> Any:
        return self.request("DELETE", path, body=body, **kw)

    def request(
        self,
        method: str,
        path: str,
        *,
        params: Optional[Mapping[str, QueryValue]] = None,
        body: Any = None,
        headers: Optional[Mapping[str, str]] = None,
        timeout_s: Optional[float] = None,
    ) -> Any:
        """Send JSON and return the decoded JSON response, or None if it is empty."""
        status, response_headers, payload = self.request_bytes(
            method, path, params=params, body=body, headers=headers, timeout_s=timeout_s
        )
        if status >= 300:
            error = error_from(status, payload)
            error.retry_after_s = pause_asked(response_headers.get("retry-after"))
            error.after_lost_response = _LOST in response_headers
            if method == "DELETE" and status == 404 and error.after_lost_response:
                return None  # the earlier try deleted it
            raise error
        try:
            return json.loads(payload) if payload else None
        except ValueError as e:
            # A proxy in front of the server sent a page, for example during maintenance or for a network's sign-in.
            begin = payload[:_LONGEST_EXCERPT].decode("utf-8", "replace")
            raise APIError(502, f"{self.base_url} did not answer with JSON: {begin!r}") from e

    def request_bytes(
        self,
        method: str,
        path: str,
        *,
        params: Optional[Mapping[str, QueryValue]] = None,
        body: Any = None,
        headers: Optional[Mapping[str, str]] = None,
        timeout_s: Optional[float] = None,
    ) -> Tuple[int, Dict[str, str], bytes]:
        """Send a request with retries. Return the status, the headers in lower case, and the decoded body."""
        data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        once = {"Idempotency-Key": str(uuid.uuid4())} if method == "POST" else {}
        request_headers = {**self.headers, **once, **(headers or {})}
        target = _target(path, params)
        wait_s = self.timeout_s if timeout_s is None else timeout_s
        next_pause = pauses(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        last, paused_s, attempt, lost = "", 0.0, 0, 0
        while attempt <= self.retries:
            pause_s = next(next_pause)
            try:
                with self._connections.exchange(
                    method, target, request_headers, data, timeout_s=wait_s, read_timeout_s=wait_s
                ) as response:
                    response_headers = {k.lower(): v for k, v in response.getheaders()}
                    payload = response.read()
            except (ssl.SSLCertVerificationError, UntrustedCertificate) as e:
                raise UntrustedMasterError(f"cannot trust {self.base_url}: {_reason(e)}") from e
            except (OSError, http.client.HTTPException) as e:
                last = in_words(e)
                lost += not isinstance(e, (ConnectionRefusedError, socket.gaierror))
                if self._absence is not None and _is_away(e):
                    self._absence.note(self.base_url, last)
                    time.sleep(pause_s)
                    continue  # without using up a retry
                if not self._patient:
                    break
            else:
                self._patient = True
                if self._absence is not None:
                    self._absence.end()
                if response_headers.get("content-encoding") == "gzip":
                    payload = gzip.decompress(payload)
                if response.status not in RETRY_STATUSES or attempt == self.retries:
                    if lost:
                        response_headers[_LOST] = str(lost)
                    return response.status, response_headers, payload
                lost += response.status in (502, 504)  # the server behind the proxy may have acted
                last = str(error_from(response.status, payload))[:_LONGEST_EXCERPT]
                pause_s = max(pause_s, pause_asked(response_headers.get("retry-after")))
            if attempt < self.retries:
                if paused_s <= _SILENT_S < paused_s + pause_s:
                    log.warning(
                        "waiting for %s, which does not answer yet: %s", self.base_url, last
                    )
                paused_s += pause_s
                time.sleep(pause_s)
            attempt += 1
        raise MasterUnreachableError(f"cannot reach {self.base_url}: {last}")

    def stream_lines(
        self,
        method: str,
        path: str,
        *,
        params: Optional[Mapping[str, QueryValue]] = None,
        body: Any = None,
    ) -> Iterator[Any]:
        """Yield the `result` of each line of an NDJSON answer; raise on an `error` line."""
        data = json.dumps(body).encode() if body is not None else None
        with self.response(method, path, params=params, data=data) as response:
            for line in self._lines(response):
                obj = self._decoded(line)
                if "error" in obj:
                    detail = obj["error"]
                    raise APIError(int(detail.get("httpCode") or 500), str(detail.get("message")))
                yield obj.get("result")

    def _decoded(self, line: bytes) -> Any:
        try:
            return json.loads(line)
        except ValueError as e:
            raise MasterUnreachableError(
                f"the stream from {self.base_url} broke off inside a line"
            ) from e

    def _lines(self, response: http.client.HTTPResponse) -> Iterator[bytes]:
        try:
            for raw in response:
                if raw.strip():
                    yield raw
        except (OSError, http.client.HTTPException) as e:
            raise MasterUnreachableError(f"lost the stream from {self.base_url}: {e!r}") from e

    @contextlib.contextmanager
    def response(
        self,
        method: str,
        path: str,
        *,
        params: Optional[Mapping[str, QueryValue]] = None,
        data: Optional[bytes] = None,
        headers: Optional[Mapping[str, str]] = None,
    ) -> Iterator[http.client.HTTPResponse]:
        """Yield the response as a file, for bodies that do not fit into memory. The request is not retried."""
        request_headers = {**self.headers, "Accept-Encoding": "identity", **(headers or {})}
        with contextlib.ExitStack() as stack:
            try:
                response = stack.enter_context(
                    self._connections.exchange(
                        method,
                        _target(path, params),
                        request_headers,
                        data,
                        timeout_s=self.timeout_s,
                    )
                )
                refusal = response.read() if response.status >= 300 else None
            except (ssl.SSLCertVerificationError, UntrustedCertificate) as e:
                raise UntrustedMasterError(f"cannot trust {self.base_url}: {_reason(e)}") from e
            except (OSError, http.client.HTTPException) as e:
                raise MasterUnreachableError(f"cannot reach {self.base_url}: {in_words(e)}") from e
            if response.status in RETRY_STATUSES:
                raise MasterUnreachableError(
                    f"cannot reach {self.base_url}: HTTP {response.status}"
                )
            if refusal is not None:
                raise error_from(response.status, refusal)
            yield response

    def connections(self) -> Connections:
        """Make a separate set of connections to the same server, with the same certificate settings."""
        names = ("cert_file", "verify", "server_hostname", "fingerprint")
        return Connections(self.base_url, **{name: self.options[name] for name in names})

    def close(self) -> None:
        """Close the idle connections. The next request opens a new one."""
        self._connections.close()


def in_words(error: Exception) -> str:
    """Return the cause of a failed connection in the words of a user."""
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, socket.gaierror):
        return "unknown host"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ssl.SSLError) and error.reason in _PLAIN_HTTP:
        return "this address speaks plain HTTP"
    if isinstance(error, http.client.RemoteDisconnected):
        return "the server closed the connection without an answer"
    return f"{type(error).__name__}: {error}"


def _reason(error: ssl.SSLError) -> str:
    return str(getattr(error, "verify_message", "") or error)


def _target(path: str, params: Optional[Mapping[str, QueryValue]]) -> str:
    query = encode_query(params)
    return f"{path}?{query}" if query else path
