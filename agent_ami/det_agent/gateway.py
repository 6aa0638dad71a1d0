"""The HTTP server that containers use as their master."""

import contextlib
import gzip
import http.client
import io
import json
import logging
import math
import socket
import threading
import time
import uuid
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from determined.common.connections import Connections

from det_agent.connection_limits import LimitedServer
from det_agent.credentials import MachineCredentials
from det_agent.data_objects import DataChanged, DataMissing, DataRefused, DataUnavailable
from det_agent.data_sets import NO_DATA_SETS, DataSets, NoDataSets
from det_agent.data_transfer import DiskFull
from det_agent.log_limits import LogLimits
from det_agent.report_delivery import TrialReport
from det_agent.request_bodies import (
    MAX_BODY_BYTES,
    MAX_TOKENLESS_BODY_BYTES,
    BadBody,
    Body,
    Budget,
    read_body,
)
from det_agent.runtime import ContainerSessions
from det_agent.spool import SpoolFull
from det_agent.task_code import address_in, asking_for_address, is_code, stored_archive
from det_agent.task_logs import BadTaskLogs, posted_lines
from det_agent.trial_reports import (
    MAX_REPORT_BYTES,
    QueueFull,
    TrialReports,
    is_trial_report,
)
from det_agent.upstream import (
    HOP_BY_HOP,
    LONGEST_PAUSE_S,
    CallerGone,
    ForwardedRequest,
    end_to_end,
    raise_if_gone,
    send,
)

MAX_LOG_BODY_BYTES = 64 * 1024 * 1024
# Many proxies and clients have a read timeout of 60 s, so answer within this time.
LONGEST_PREEMPTION_WAIT_S = 60.0
_REASONS = {
    400: (3, "InvalidArgument"),
    401: (16, "Unauthenticated"),
    403: (7, "PermissionDenied"),
    404: (5, "NotFound"),
    413: (8, "ResourceExhausted"),
}
_UNAVAILABLE = (14, "Unavailable")
CALLER_LOOK_S = 1.0
# How much of a rejected body is read.
MOST_READ_ON_BYTES, READ_ON_S = 16 * 1024 * 1024, 5.0
# The interval at which the server checks whether it should stop.
_STOP_S = 0.05
PING_PATH = "/det-agent/ping"
CREDENTIALS_PATH = "/det-agent/credentials/"
DATA_FILES_PATH, DATA_FETCH_PATH = "/det-agent/data/files", "/det-agent/data/fetch"
_TOO_MANY_LOGS = "too many bytes of logs in one request: send fewer lines at a time"
_LOG_PATHS = frozenset({"/api/v1/task/logs", "/task-logs"})

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class GatewayDependencies:
    """The parts of the agent that the gateway uses."""

    agent_id: str
    sessions: ContainerSessions
    logs: LogLimits
    reports: TrialReports
    upstream: Connections
    ping_token: str = ""
    # By the cloud's name.
    credentials: Mapping[str, MachineCredentials] = field(default_factory=dict)
    others: Budget = field(default_factory=Budget)
    data: DataSets | NoDataSets = NO_DATA_SETS


class Gateway:
    def __init__(self, agent: GatewayDependencies, bind_ip: str, port: int) -> None:
        handler = type("BoundHandler", (_Handler,), {"agent": agent})
        self._sessions = agent.sessions
        self._upstream = agent.upstream
        self._server = _Server((bind_ip, port), handler)
        self.port: int = self._server.server_address[1]

    def start(self) -> None:
        threading.Thread(
            target=self._server.serve_forever, args=(_STOP_S,), name="gateway", daemon=True
        ).start()

    def stop(self) -> None:
        self._sessions.stop_waiting()
        self._server.shutdown()
        self._server.server_close()
        self._upstream.close()


class _Server(LimitedServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        _log.debug("a container's request ended early", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    agent: GatewayDependencies
    connection: socket.socket
    protocol_version = "HTTP/1.1"
    server_version = "det-agent"
    disable_nagle_algorithm = True
    wbufsize = -1
    timeout = 600

    def do_GET(self) -> None:
        path = urlsplit(self.path).path.rstrip("/")
        try:
            self._route(path)
        except BadBody as e:
            # Unread bytes would be parsed as the next request.
            self.close_connection = True
            self._refuse(e.status, str(e))
            self._read_on()

    def _read_on(self) -> None:
        """Read a part of a rejected body. Otherwise a reset connection could hide the error from the caller."""
        remaining, until = MOST_READ_ON_BYTES, time.monotonic() + READ_ON_S
        with contextlib.suppress(OSError):
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_WR)
            self.connection.settimeout(READ_ON_S)
            while (
                remaining > 0 and time.monotonic() < until and (part := self.rfile.read1(1 << 16))
            ):
                remaining -= len(part)

    def _route(self, path: str) -> None:
        allocation_id = _preemption_target(path)
        if self.command == "GET" and allocation_id:
            self._answer_preemption(allocation_id)
        elif path == PING_PATH:
            self._answer(200, {"agent": self.agent.agent_id, "ping": self.agent.ping_token})
        elif path.startswith(CREDENTIALS_PATH):
            self._send_credentials(path.removeprefix(CREDENTIALS_PATH))
        elif path in (DATA_FILES_PATH, DATA_FETCH_PATH):
            self._answer_data(path)
        elif self.command == "POST" and path in _LOG_PATHS:
            self._take_logs()
        elif is_trial_report(self.command, path):
            self._take_report()
        elif is_code(self.command, path):
            self._answer_code(path)
        else:
            with self._body() as body:
                self._forward(path, body)

    do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing, because request lines may contain signed URLs."""

    def _answer_preemption(self, allocation_id: str) -> None:
        key = self.agent.sessions.owner_of(self._tokens())
        if key is None:
            return self._refuse(401, "the session token belongs to no container of this agent")
        if key.allocation_id != allocation_id:
            return self._refuse(403, f"this container belongs to allocation {key.allocation_id}")
        query = parse_qs(urlsplit(self.path).query)
        seconds = (query.get("timeoutSeconds") or query.get("timeout_seconds") or ["60"])[0]
        wait_s = float(_parse_whole_number(seconds, LONGEST_PREEMPTION_WAIT_S))
        left_s = self.agent.sessions.wait_for_preemption(key, wait_s)
        answer: dict[str, Any] = {"preempt": left_s is not None}
        if left_s is not None and left_s < math.inf:
            answer["secondsLeft"] = round(left_s, 1)
        return self._answer(200, answer)

    def _send_credentials(self, cloud: str) -> None:
        """Return the machine's credentials for a cloud to a container of this agent."""
        if self.agent.sessions.owner_of(self._tokens()) is None:
            return self._refuse(401, "the session token belongs to no container of this agent")
        credentials = self.agent.credentials.get(cloud)
        if credentials is None:
            return self._refuse(404, "this agent has no credentials for that cloud")
        try:
            return self._answer(200, dict(credentials.current()))
        except OSError as e:
            return self._refuse(503, f"the machine's role is not available: {e}")

    def _answer_data(self, path: str) -> None:
        """List the files of a container's data set, or load one of them."""
        key = self.agent.sessions.owner_of(self._tokens())
        if key is None:
            return self._refuse(401, "the session token belongs to no container of this agent")
        query = parse_qs(urlsplit(self.path).query)
        at, name = (query.get("at") or [""])[0], (query.get("path") or [""])[0]
        try:
            if path == DATA_FILES_PATH:
                return self._answer(200, {"files": self.agent.data.files(key, at)})
            self.agent.data.fetch(key, at, name)
            return self._answer(200, {})
        except (DataRefused, DataMissing) as e:
            return self._refuse(404, str(e))
        except DataChanged as e:
            return self._refuse(409, str(e))
        except (DataUnavailable, DiskFull, OSError) as e:
            return self._refuse(503, str(e))

    def _take_logs(self) -> None:
        key = self.agent.sessions.owner_of(self._tokens())
        with self._body() as body:
            if key is None:
                # A user's token, for example of unmanaged training in a notebook.
                return self._forward(urlsplit(self.path).path, body)
            try:
                if body.length > MAX_LOG_BODY_BYTES:
                    raise BadTaskLogs(400, _TOO_MANY_LOGS)
                lines = posted_lines(self._decoded(body.file.read()), key, self.agent.agent_id)
                idempotency_key = self.headers.get("Idempotency-Key") or ""
                self.agent.logs.append(key, lines, idempotency_key)
            except BadTaskLogs as e:
                return self._refuse(e.status, str(e))
            except (SpoolFull, OSError) as e:
                return self._refuse(503, str(e))
            except Exception as e:
                # Without an answer, the container would send these lines again before all others.
                _log.exception("lines of container %s cannot be taken", key.id)
                return self._refuse(400, f"the agent cannot take these lines: {e!r}")
        return self._answer(200, {})

    def _take_report(self) -> None:
        key = self.agent.sessions.owner_of(self._tokens())
        path = urlsplit(self.path).path
        with self._body() as body:
            if key is None or body.length > MAX_REPORT_BYTES:
                return self._forward(path, body)
            report = TrialReport(self.path, dict(self.headers.items()), body.file.read())
            try:
                answer = self.agent.reports.put(key, report)
            except QueueFull:
                return self._forward(path, body)
        if answer is None:
            return self._answer(200, {})
        return self._send(answer.status, answer.headers, answer.body)

    def _answer_code(self, path: str) -> None:
        """Return the archive, also if the control plane only returns its address."""
        headers = {**dict(self.headers.items()), "Accept-Encoding": "identity"}
        with self._body() as body:
            self._forward(path, body, asking_for_address(self.path), headers, self._pass_code_on)

    def _pass_code_on(self, response: http.client.HTTPResponse) -> None:
        answer = response.read()
        place = address_in(answer) if response.status == 200 else None
        if place is None:
            return self._send(response.status, end_to_end(dict(response.getheaders())), answer)
        try:
            stack = contextlib.ExitStack()
            archive = stack.enter_context(stored_archive(place))
        except OSError as e:
            return self._refuse(502, str(e))
        with stack:
            self.send_response_only(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(archive.length))
            self.end_headers()
            try:
                for part in archive.parts():
                    self.wfile.write(part)
            except (OSError, http.client.HTTPException) as e:
                # The answer is incomplete. Only closing the connection reports this to the container.
                _log.warning("a container got no code: %s", e)
                self.close_connection = True
        return None

    def _forward(
        self,
        path: str,
        body: Body,
        target: str = "",
        headers: dict[str, str] | None = None,
        pass_on: Callable[[http.client.HTTPResponse], None] | None = None,
    ) -> None:
        headers = headers or dict(self.headers.items())
        if self.command == "POST":
            # The request may take effect although its answer is lost.
            headers.setdefault("Idempotency-Key", str(uuid.uuid4()))
        request = ForwardedRequest(
            method=self.command,
            target=target or self.path,
            headers=headers,
            body=body.file,
            length=body.length,
            retried=path.startswith("/api/") or path in _LOG_PATHS,
            longest_pause_s=1.0 if path.endswith("/rendezvous") else LONGEST_PAUSE_S,
        )
        try:
            self._wait_for_reports()
            response, stack = send(self.agent.upstream, request, self.connection)
        except CallerGone:
            self.close_connection = True
        except (OSError, http.client.HTTPException) as e:
            self._refuse(502, f"the control plane does not answer: {e}")
        else:
            with stack:
                (pass_on or self._pass_on)(response)

    def _wait_for_reports(self) -> None:
        """Wait until the earlier reports of this container are delivered. Raises CallerGone."""
        key = self.agent.sessions.owner_of(self._tokens())
        if key is not None:
            last = self.agent.reports.last_of(key)
            while not self.agent.reports.wait_until_delivered(key, last, CALLER_LOOK_S):
                raise_if_gone(self.connection)

    def _pass_on(self, response: http.client.HTTPResponse) -> None:
        self.send_response_only(response.status, response.reason)
        for name, value in response.getheaders():
            if name.lower() not in HOP_BY_HOP:
                self.send_header(name, value)
        bodiless = self.command == "HEAD" or response.status in (204, 304)
        chunked = not bodiless and response.getheader("Content-Length") is None
        if chunked:
            self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        try:
            while block := response.read1(256 * 1024):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(block), block) if chunked else block)
                self.wfile.flush()
            if chunked:
                self.wfile.write(b"0\r\n\r\n")
        except (OSError, http.client.HTTPException):
            # The answer is incomplete. Only closing the connection reports this to the container.
            self.close_connection = True

    def _tokens(self) -> list[str]:
        names = ("Authorization", "Grpc-Metadata-x-allocation-token")
        return [(self.headers.get(name) or "").removeprefix("Bearer ").strip() for name in names]

    def _body(self) -> Body:
        """Read the body up to the caller's limit. Raises BadBody."""
        tokens = [*self._tokens(), self.headers.get("Cookie") or ""]
        limit = MAX_BODY_BYTES if any(tokens) else MAX_TOKENLESS_BODY_BYTES
        is_own = self.agent.sessions.owner_of(tokens) is not None
        return read_body(self.rfile, self.headers, limit, None if is_own else self.agent.others)

    def _decoded(self, raw: bytes) -> bytes:
        if (self.headers.get("Content-Encoding") or "").lower() != "gzip":
            return raw
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(raw)) as file:
                unpacked = file.read(MAX_LOG_BODY_BYTES + 1)
        except (OSError, EOFError, zlib.error):
            raise BadTaskLogs(400, "the body says gzip and is not") from None
        if len(unpacked) > MAX_LOG_BODY_BYTES:
            raise BadTaskLogs(400, _TOO_MANY_LOGS)
        return unpacked

    def _refuse(self, status: int, message: str) -> None:
        code, reason = _REASONS.get(status, _UNAVAILABLE)
        self._answer(status, {"error": {"code": code, "reason": reason, "error": message}})

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        self._send(status, {"Content-Type": "application/json"}, json.dumps(body).encode())

    def _send(self, status: int, headers: Mapping[str, str], payload: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)


def _preemption_target(path: str) -> str:
    """Return the allocation in /api/v1/allocations/{id}/signals/preemption, or ''."""
    head, tail = "/api/v1/allocations/", "/signals/preemption"
    if not (path.startswith(head) and path.endswith(tail)):
        return ""
    return unquote(path[len(head) : -len(tail)])


def _parse_whole_number(text: str, most: float) -> float:
    """Return the number in a text, limited to `most`. A text that is not a number gives `most`."""
    if not (text.isascii() and text.isdigit()) or len(text) > 9:
        return most
    return min(int(text), most)
