"""The gateway as containers see it, in front of a control plane that can fail."""

import base64
import gzip
import hashlib
import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from det_agent import request_bodies
from det_agent.container_key import ContainerKey
from det_agent.container_sessions import ContainerSessions
from det_agent.gateway import Gateway, GatewayDependencies
from det_agent.log_limits import LogLimits
from det_agent.report_delivery import ReportDelivery
from det_agent.spool import Spool
from det_agent.trial_reports import TrialReports
from det_controlplane.core import patterns
from determined.common.connections import Connections

from tests.support.fake_controlplane import FakeControlPlane

KEY = ContainerKey("c-1", 1, "alloc-1", "task-1", "secret-1")
OTHER = ContainerKey("c-2", 1, "alloc-2", "task-2", "secret-2")
TOKEN = {"Grpc-Metadata-x-allocation-token": "Bearer secret-1"}


@dataclass
class Caller:
    gateway: Gateway
    sessions: ContainerSessions
    spool: Spool

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | Iterator[bytes] | None = None,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, Any, dict[str, str]]:
        connection = http.client.HTTPConnection("127.0.0.1", self.gateway.port, timeout=60)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            raw = response.read()
            answer = json.loads(raw) if raw[:1] in (b"{", b"[") else raw
            return response.status, answer, {k.lower(): v for k, v in response.getheaders()}
        finally:
            connection.close()

    def spooled(self) -> list[dict[str, Any]]:
        batch = self.spool.next_batch()
        return [json.loads(line) for line in batch.lines] if batch else []


@contextmanager
def running_gateway(
    url: str, folder: Path, sessions: ContainerSessions, spool: Spool
) -> Iterator[Gateway]:
    upstream = Connections(url)
    reports = TrialReports(
        folder / "reports", ReportDelivery(upstream, lambda: ""), lambda key, text: None
    )
    logs = LogLimits(spool, "agent-1", lines_s=1, bytes_s=1 << 20)
    agent = GatewayDependencies("agent-1", sessions, logs, reports, upstream)
    gateway = Gateway(agent, "127.0.0.1", 0)
    gateway.start()
    try:
        yield gateway
    finally:
        gateway.stop()
        # What it could not deliver would be tried again beside the tests of other files.
        reports.stop()


@pytest.fixture
def caller(plane: FakeControlPlane, tmp_path: Path) -> Iterator[Caller]:
    for name in ("logs", "reports"):
        (tmp_path / name).mkdir()
    sessions, spool = ContainerSessions(), Spool(tmp_path / "logs")
    sessions.open(KEY)
    sessions.open(OTHER)
    with running_gateway(plane.url, tmp_path, sessions, spool) as gateway:
        yield Caller(gateway, sessions, spool)
    spool.close()


PREEMPTION = "/api/v1/allocations/alloc-1/signals/preemption"


def test_no_preemption_is_answered_at_once_when_asked_not_to_wait(caller: Caller) -> None:
    assert caller.ask("GET", PREEMPTION + "?timeoutSeconds=0", headers=TOKEN)[:2] == (
        200,
        {"preempt": False},
    )


def test_a_waiting_container_learns_of_its_preemption_without_the_control_plane(
    caller: Caller, plane: FakeControlPlane
) -> None:
    answers: list[Any] = []
    asking = threading.Thread(
        target=lambda: answers.append(
            caller.ask("GET", PREEMPTION + "?timeoutSeconds=60", headers=TOKEN)[1]
        )
    )
    asking.start()
    caller.sessions.set_preempting(frozenset({"alloc-2"}))
    caller.sessions.set_preempting(frozenset({"alloc-1"}))
    asking.join(60)
    assert answers == [{"preempt": True}]
    assert plane.forwarded == []


def test_a_preempted_allocation_is_told_every_time(caller: Caller) -> None:
    caller.sessions.set_preempting(frozenset({"alloc-1"}))
    for _ in range(2):
        assert caller.ask("GET", PREEMPTION, headers={"Authorization": "Bearer secret-1"})[1] == {
            "preempt": True
        }


@pytest.mark.parametrize(
    ("token", "status"), [("", 401), ("Bearer wrong", 401), ("Bearer secret-2", 403)]
)
def test_preemption_needs_the_allocations_own_token(
    caller: Caller, token: str, status: int
) -> None:
    answer = caller.ask("GET", PREEMPTION + "?timeoutSeconds=0", headers={"Authorization": token})
    assert answer[0] == status
    assert answer[1]["error"]["error"]


def test_a_container_that_is_gone_has_no_token_any_more(caller: Caller) -> None:
    caller.sessions.close("c-1")
    assert caller.ask("GET", PREEMPTION + "?timeoutSeconds=0", headers=TOKEN)[0] == 401


@pytest.mark.parametrize("path", ["/api/v1/task/logs", "/task-logs"])
@pytest.mark.parametrize("packed", [False, True])
def test_logs_are_spooled_and_completed(
    caller: Caller, plane: FakeControlPlane, path: str, packed: bool
) -> None:
    entry = {
        "taskId": "task-1",
        "log": "hello",
        "level": "ERROR",
        "rankId": 3,
        "stdtype": "stderr",
        "id": "x",
    }
    body = json.dumps([entry] if path == "/task-logs" else {"logs": [entry]}).encode()
    headers = {**TOKEN, "Content-Encoding": "gzip"} if packed else TOKEN
    assert caller.ask("POST", path, gzip.compress(body) if packed else body, headers)[:2] == (
        200,
        {},
    )
    (line,) = caller.spooled()
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "task_id": "task-1",
        "allocation_id": "alloc-1",
        "agent_id": "agent-1",
        "container_id": "c-1",
        "rank_id": 3,
        "level": "LOG_LEVEL_ERROR",
        "log": "hello",
        "stdtype": "stderr",
    }
    assert plane.forwarded == []


def test_logs_whose_answer_was_lost_are_spooled_once(caller: Caller) -> None:
    body = json.dumps({"logs": [{"log": "hello"}]}).encode()
    for key in ("a", "a", "b"):
        caller.ask("POST", "/api/v1/task/logs", body, {**TOKEN, "Idempotency-Key": key})
    assert [line["log"] for line in caller.spooled()] == ["hello", "hello"]


def test_a_container_cannot_write_into_the_log_of_another_task(caller: Caller) -> None:
    body = json.dumps({"logs": [{"taskId": "task-2", "log": "forged"}]}).encode()
    status, answer, _ = caller.ask("POST", "/api/v1/task/logs", body, TOKEN)
    assert status == 403
    assert "task-1" in answer["error"]["error"]
    assert caller.spooled() == []


@pytest.mark.parametrize("body", [b"", b"nonsense", b"{}", b'{"logs": ["x"]}', b'"x"'])
def test_a_body_that_is_no_list_of_logs_is_refused_with_a_sentence(
    caller: Caller, body: bytes
) -> None:
    status, answer, _ = caller.ask("POST", "/api/v1/task/logs", body, TOKEN)
    assert status == 400
    assert answer["error"]["reason"] == "InvalidArgument"


def test_logs_with_a_users_token_go_to_the_control_plane(
    caller: Caller, plane: FakeControlPlane
) -> None:
    caller.ask("POST", "/task-logs", b"[]", {"Authorization": "Bearer users-own"})
    ((method, path, headers, body),) = plane.forwarded
    assert (method, path, body) == ("POST", "/task-logs", b"[]")
    assert headers["Authorization"] == "Bearer users-own"


def test_everything_else_is_passed_on_with_method_query_headers_and_body(
    caller: Caller, plane: FakeControlPlane
) -> None:
    plane.answer_to = lambda method, path, body: (
        404,
        {"error": {"code": 5, "error": "no such trial"}},
    )
    status, answer, _ = caller.ask(
        "PATCH", "/api/v1/trials/7?a=%20b&c=d", b'{"state": 1}', {**TOKEN, "X-Own": "1"}
    )
    ((method, path, headers, body),) = plane.forwarded
    assert (method, path, body) == ("PATCH", "/api/v1/trials/7?a=%20b&c=d", b'{"state": 1}')
    assert headers["X-Own"] == "1"
    assert headers["Host"] == plane.url.removeprefix("http://")
    assert (status, answer["error"]["error"]) == (404, "no such trial")


def test_a_large_body_passes_both_ways(caller: Caller, plane: FakeControlPlane) -> None:
    large = bytes(range(256)) * 40_000
    plane.answer_to = lambda method, path, body: (200, body)
    assert caller.ask("PUT", "/api/v1/blob", large, TOKEN)[1] == large


def test_a_chunked_body_passes(caller: Caller, plane: FakeControlPlane) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", caller.gateway.port, timeout=60)
    connection.request("POST", "/api/v1/x", iter([b"one", b"two"]), TOKEN, encode_chunked=True)
    assert connection.getresponse().read()
    connection.close()
    assert plane.forwarded[0][3] == b"onetwo"


def test_requests_over_a_kept_connection_are_sent_once_each(
    caller: Caller, plane: FakeControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("determined.common.connections.IDLE_S", 3600.0)
    # One connection of ours, too: its next request is read when the connection of the last one was given back.
    connection = http.client.HTTPConnection("127.0.0.1", caller.gateway.port, timeout=60)
    for i in range(5):
        connection.request("POST", f"/api/v1/trials/{i}/metrics", b"{}", TOKEN)
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (
            200,
            json.dumps({"path": f"/api/v1/trials/{i}/metrics"}).encode(),
        )
    connection.close()
    assert [path for _, path, _, _ in plane.forwarded] == [
        f"/api/v1/trials/{i}/metrics" for i in range(5)
    ]
    assert len(plane.callers) == 1


def test_an_outage_is_a_pause(caller: Caller, plane: FakeControlPlane) -> None:
    failures = [503, 502, 504]
    plane.answer_to = lambda method, path, body: (
        (failures.pop(), {}) if failures else (200, {"ok": True})
    )
    assert caller.ask("POST", "/api/v1/runs/start", b"{}", TOKEN)[:2] == (200, {"ok": True})
    assert [body for _, _, _, body in plane.forwarded] == [b"{}"] * 4
    assert len({headers["Idempotency-Key"] for _, _, headers, _ in plane.forwarded}) == 1


def test_a_report_that_cannot_be_kept_waits_for_the_control_plane(
    caller: Caller, plane: FakeControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("det_agent.trial_reports.MAX_REPORT_BYTES", 1)
    failures = [503, 503]
    plane.answer_to = lambda method, path, body: (
        (failures.pop(), {}) if failures else (200, {"ok": True})
    )
    answer = caller.ask("POST", "/api/v1/trials/1/metrics", b"{}", TOKEN)
    assert answer[:2] == (200, {"ok": True})


def test_a_report_with_a_users_token_waits_for_the_control_plane(
    caller: Caller, plane: FakeControlPlane
) -> None:
    failures = [503, 503]
    plane.answer_to = lambda method, path, body: (
        (failures.pop(), {}) if failures else (200, {"ok": True})
    )
    own = {"Authorization": "Bearer users-own"}
    assert caller.ask("POST", "/api/v1/checkpoints", b"{}", own)[:2] == (200, {"ok": True})


def test_the_rendezvous_waits_until_the_peers_are_there(
    caller: Caller, plane: FakeControlPlane
) -> None:
    missing = [504] * 3
    plane.answer_to = lambda method, path, body: (
        (missing.pop(), {}) if missing else (200, {"rendezvousInfo": {}})
    )
    path = "/api/v1/allocations/alloc-1/resources/c-1/rendezvous"
    assert caller.ask("GET", path, headers=TOKEN)[1] == {"rendezvousInfo": {}}


def test_an_unhealthy_answer_outside_the_api_is_passed_on(
    caller: Caller, plane: FakeControlPlane
) -> None:
    plane.answer_to = lambda method, path, body: (503, {"status": "down"})
    assert caller.ask("GET", "/health")[:2] == (503, {"status": "down"})


def test_a_caller_who_hangs_up_during_an_outage_is_not_waited_for(
    caller: Caller, plane: FakeControlPlane
) -> None:
    plane.answer_to = lambda method, path, body: (503, {})
    connection = http.client.HTTPConnection("127.0.0.1", caller.gateway.port, timeout=60)
    connection.request("GET", "/api/v1/master", headers=TOKEN)
    plane.until(lambda: len(plane.forwarded) >= 2)
    connection.close()
    gone = threading.Event()

    def answered(method: str, path: str, body: bytes) -> tuple[int, Any]:
        if path.endswith("/later"):
            gone.set()
            return 200, {}
        return 503, {}

    plane.answer_to = answered
    asked = len(plane.forwarded)
    caller.ask("GET", "/api/v1/later", headers=TOKEN)
    assert gone.is_set()
    assert len(plane.forwarded) <= asked + 2


def test_answers_of_unknown_length_are_streamed_as_they_come(
    caller: Caller, tmp_path: Path
) -> None:
    arrived, proceed = threading.Event(), threading.Event()
    with (
        _streaming_server(proceed) as url,
        running_gateway(url, tmp_path, caller.sessions, caller.spool) as gateway,
    ):
        connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=60)
        connection.request("GET", "/api/v1/stream")
        response = connection.getresponse()
        assert response.readline() == b'{"result": 1}\n'
        arrived.set()
        proceed.set()
        assert response.read() == b'{"result": 2}\n'
        connection.close()


class _streaming_server:
    """Sends its second line only when the test has read the first."""

    def __init__(self, proceed: threading.Event) -> None:
        from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self.send_response_only(200)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                self.wfile.write(b'e\r\n{"result": 1}\n\r\n')
                self.wfile.flush()
                proceed.wait(60)
                self.wfile.write(b'e\r\n{"result": 2}\n\r\n0\r\n\r\n')

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True

    def __enter__(self) -> str:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def test_logs_that_unpack_to_more_than_a_request_may_have_are_refused(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("det_agent.gateway.MAX_LOG_BODY_BYTES", 1 << 20)
    body = gzip.compress(b" " * (4 << 20) + b'{"logs": []}')
    headers = {**TOKEN, "Content-Encoding": "gzip"}
    assert caller.ask("POST", "/api/v1/task/logs", body, headers)[0] == 400
    assert caller.spooled() == []


def test_lines_that_would_fill_the_memory_of_the_agent_are_refused(caller: Caller) -> None:
    """A container's few kilobytes stood for gigabytes in the agent, which the others of its machine need, too."""
    headers = {**TOKEN, "Content-Encoding": "gzip"}
    bombs = [
        b"[" + b"{}," * (10 << 20) + b"{}]",
        b'{"logs": [' + b"{}," * patterns.MOST_LINES + b"{}]}",
        b'{"logs": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ]
    for bomb in bombs:
        status, answer, _ = caller.ask("POST", "/api/v1/task/logs", gzip.compress(bomb, 1), headers)
        assert (status, answer["error"]["reason"]) == (400, "InvalidArgument")
    assert caller.spooled() == []


@pytest.mark.parametrize(
    "odd",
    [
        {"log": 5}, {"log": {"a": "b"}}, {"rank_id": "first"}, {"rank_id": 2**40}, {"rank_id": True},
        {"timestamp": 7}, {"source": ["x"]}, {"container_id": "x" * 2000},
    ],
    ids=["log", "log-object", "rank", "large-rank", "no-rank", "time", "source", "long"],
)  # fmt: skip
def test_a_line_that_cannot_be_stored_is_refused_to_its_container(
    caller: Caller, odd: dict[str, Any]
) -> None:
    """The control plane would refuse it with the lines of other containers that are sent along."""
    body = json.dumps({"logs": [{"log": "fine"}, {"log": "odd", **odd}]}).encode()
    assert caller.ask("POST", "/api/v1/task/logs", body, TOKEN)[0] == 400
    assert caller.spooled() == []


def test_a_flood_of_lines_ends_at_the_agent(caller: Caller) -> None:
    """The agent passes on a minute's worth of lines at once, and counts the rest."""
    for _ in range(10):
        body = json.dumps({"logs": [{"log": "again and again"}] * 1000}).encode()
        assert caller.ask("POST", "/api/v1/task/logs", body, TOKEN)[0] == 200
    other = {"Grpc-Metadata-x-allocation-token": "Bearer secret-2"}
    body = json.dumps({"logs": [{"log": "a word of another task"}]}).encode()
    assert caller.ask("POST", "/api/v1/task/logs", body, other)[0] == 200
    texts = [line["log"] for line in caller.spooled()]
    assert texts.count("again and again") < 500
    assert texts[-1] == "a word of another task"


def test_strangers_fill_no_disk(caller: Caller, plane: FakeControlPlane) -> None:
    """Known containers, and callers with tokens of users, send as much as the control plane takes."""
    path, body = "/api/v1/experiments", b"x" * (request_bodies.MAX_TOKENLESS_BODY_BYTES + 1)
    assert caller.ask("POST", path, body)[0] == 413
    assert caller.ask("POST", path, iter([body]))[0] == 413
    assert plane.forwarded == []
    for token in (TOKEN, {"Authorization": "Bearer of-a-user"}):
        caller.ask("POST", path, body, token)
    assert len(plane.forwarded) == 2
    length = {**TOKEN, "Content-Length": str(request_bodies.MAX_BODY_BYTES + 1)}
    assert caller.ask("POST", path, headers=length)[0] == 413


def test_a_caller_that_sends_all_of_a_refused_body_reads_why(caller: Caller) -> None:
    body = bytes(8 * 1024 * 1024)
    with socket.create_connection(("127.0.0.1", caller.gateway.port), timeout=60) as connection:
        head = f"POST /api/v1/experiments HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)
        assert connection.recv(100).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize("length", ["-5", "²", "1" * 5000, "five"])
def test_a_body_of_no_length_is_refused(caller: Caller, length: str) -> None:
    headers = {**TOKEN, "Content-Length": length}
    assert caller.ask("POST", "/api/v1/experiments", headers=headers)[0] in (400, 413)


def test_a_wait_that_is_no_number_is_answered(caller: Caller) -> None:
    caller.sessions.set_preempting(frozenset({"alloc-1"}))
    for asked in ("%C2%B2", "-1", "1" * 5000):
        answer = caller.ask("GET", f"{PREEMPTION}?timeoutSeconds={asked}", headers=TOKEN)
        assert answer[:2] == (200, {"preempt": True})


CODE = "/api/v1/tasks/task-1/context_directory"
ARCHIVE = bytes(range(256)) * 1000 + b"x"


def keep_code_elsewhere(
    plane: FakeControlPlane, statuses: list[int], uploaded: bytes = ARCHIVE
) -> list[str]:
    """Let the control plane tell the address of an archive; gives the paths that were asked."""
    sha256 = hashlib.sha256(uploaded).hexdigest()
    asked: list[str] = []

    def answer(method: str, path: str, body: bytes) -> tuple[int, Any]:
        asked.append(path)
        if path.startswith("/store/"):
            status = statuses.pop(0)
            return status, ARCHIVE if status == 200 else b"refused"
        return 200, {"b64Tgz": "", "url": f"{plane.url}/store/code.tgz", "sha256": sha256}

    plane.answer_to = answer
    return asked


def test_code_that_lies_in_the_object_store_reaches_containers_as_an_answer(
    caller: Caller, plane: FakeControlPlane
) -> None:
    asked = keep_code_elsewhere(plane, [503, 200])
    status, answer, headers = caller.ask("GET", CODE, headers=TOKEN)
    assert (status, list(answer)) == (200, ["b64Tgz"])
    assert base64.b64decode(answer["b64Tgz"]) == ARCHIVE
    assert headers["content-type"] == "application/json"
    assert asked == [f"{CODE}?url=true", "/store/code.tgz", "/store/code.tgz"]


def test_code_that_was_exchanged_in_the_store_reaches_no_container(
    caller: Caller, plane: FakeControlPlane
) -> None:
    """A fork would run other code than was looked at before it."""
    keep_code_elsewhere(plane, [200], uploaded=b"what was looked at")
    with pytest.raises(http.client.IncompleteRead):
        caller.ask("GET", CODE, headers=TOKEN)


def test_code_that_the_store_refuses_is_an_error_that_the_container_tries_again(
    caller: Caller, plane: FakeControlPlane
) -> None:
    keep_code_elsewhere(plane, [403])
    status, answer, _ = caller.ask("GET", CODE, headers=TOKEN)
    assert status == 502
    assert "the object store does not give the code of the task" in answer["error"]["error"]


@pytest.mark.parametrize(("status", "body"), [(200, {"b64Tgz": "eA=="}), (404, {"error": "gone"})])
def test_code_within_an_answer_is_passed_on(
    caller: Caller, plane: FakeControlPlane, status: int, body: Any
) -> None:
    plane.answer_to = lambda method, path, _: (status, body)
    assert caller.ask("GET", CODE, headers=TOKEN)[:2] == (status, body)
