"""The gateway as containers see it, in front of a control plane that can fail."""

import http.client
import json
import math
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.support.fake_controlplane import FakeControlPlane
from tests.support.gateway import TOKEN, Caller, running_gateway

PREEMPTION = "/api/v1/allocations/alloc-1/signals/preemption"


def test_preemption_request_with_timeout_0_returns_immediately(caller: Caller) -> None:
    assert caller.ask("GET", PREEMPTION + "?timeoutSeconds=0", headers=TOKEN)[:2] == (
        200,
        {"preempt": False},
    )


def test_waiting_container_receives_its_preemption_without_the_control_plane(
    caller: Caller, plane: FakeControlPlane
) -> None:
    answers: list[Any] = []
    asking = threading.Thread(
        target=lambda: answers.append(
            caller.ask("GET", PREEMPTION + "?timeoutSeconds=60", headers=TOKEN)[1]
        )
    )
    asking.start()
    caller.sessions.set_preempting({"alloc-2": math.inf})
    caller.sessions.set_preempting({"alloc-1": math.inf})
    asking.join(60)
    assert answers == [{"preempt": True}]
    assert plane.forwarded == []


def test_preempted_allocation_gets_the_same_response_every_time(caller: Caller) -> None:
    caller.sessions.set_preempting({"alloc-1": math.inf})
    for _ in range(2):
        assert caller.ask("GET", PREEMPTION, headers={"Authorization": "Bearer secret-1"})[1] == {
            "preempt": True
        }


def test_preempted_container_receives_the_seconds_until_it_is_killed(caller: Caller) -> None:
    caller.sessions.set_preempting({"alloc-1": 28.0})
    answer = caller.ask("GET", PREEMPTION, headers=TOKEN)[1]
    assert answer["preempt"]
    assert 20 < answer["secondsLeft"] <= 28
    caller.sessions.set_preempting({"alloc-1": 0.0})
    assert caller.ask("GET", PREEMPTION, headers=TOKEN)[1]["secondsLeft"] == 0.0


@pytest.mark.parametrize(
    ("token", "status"), [("", 401), ("Bearer wrong", 401), ("Bearer secret-2", 403)]
)
def test_preemption_requires_the_allocations_own_token(
    caller: Caller, token: str, status: int
) -> None:
    answer = caller.ask("GET", PREEMPTION + "?timeoutSeconds=0", headers={"Authorization": token})
    assert answer[0] == status
    assert answer[1]["error"]["error"]


def test_token_of_a_closed_container_is_rejected(caller: Caller) -> None:
    caller.sessions.close("c-1")
    assert caller.ask("GET", PREEMPTION + "?timeoutSeconds=0", headers=TOKEN)[0] == 401


def test_other_requests_are_forwarded_unchanged(caller: Caller, plane: FakeControlPlane) -> None:
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


def test_large_body_passes_in_both_directions(caller: Caller, plane: FakeControlPlane) -> None:
    large = bytes(range(256)) * 40_000
    plane.answer_to = lambda method, path, body: (200, body)
    assert caller.ask("PUT", "/api/v1/blob", large, TOKEN)[1] == large


def test_chunked_body_is_forwarded(caller: Caller, plane: FakeControlPlane) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", caller.gateway.port, timeout=60)
    connection.request("POST", "/api/v1/x", iter([b"one", b"two"]), TOKEN, encode_chunked=True)
    assert connection.getresponse().read()
    connection.close()
    assert plane.forwarded[0][3] == b"onetwo"


def test_requests_over_one_connection_are_each_sent_once(
    caller: Caller, plane: FakeControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("determined.common.connections.IDLE_S", 3600.0)
    # Use one connection: its next request is read after the previous one has returned the connection.
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


def test_requests_are_retried_during_an_outage(caller: Caller, plane: FakeControlPlane) -> None:
    failures = [503, 502, 504]
    plane.answer_to = lambda method, path, body: (
        (failures.pop(), {}) if failures else (200, {"ok": True})
    )
    assert caller.ask("POST", "/api/v1/runs/start", b"{}", TOKEN)[:2] == (200, {"ok": True})
    assert [body for _, _, _, body in plane.forwarded] == [b"{}"] * 4
    assert len({headers["Idempotency-Key"] for _, _, headers, _ in plane.forwarded}) == 1


def test_oversized_report_waits_for_the_control_plane(
    caller: Caller, plane: FakeControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("det_agent.trial_reports.MAX_REPORT_BYTES", 1)
    failures = [503, 503]
    plane.answer_to = lambda method, path, body: (
        (failures.pop(), {}) if failures else (200, {"ok": True})
    )
    answer = caller.ask("POST", "/api/v1/trials/1/metrics", b"{}", TOKEN)
    assert answer[:2] == (200, {"ok": True})


def test_report_with_a_users_token_waits_for_the_control_plane(
    caller: Caller, plane: FakeControlPlane
) -> None:
    failures = [503, 503]
    plane.answer_to = lambda method, path, body: (
        (failures.pop(), {}) if failures else (200, {"ok": True})
    )
    own = {"Authorization": "Bearer users-own"}
    assert caller.ask("POST", "/api/v1/checkpoints", b"{}", own)[:2] == (200, {"ok": True})


def test_rendezvous_waits_for_all_peers(caller: Caller, plane: FakeControlPlane) -> None:
    missing = [504] * 3
    plane.answer_to = lambda method, path, body: (
        (missing.pop(), {}) if missing else (200, {"rendezvousInfo": {}})
    )
    path = "/api/v1/allocations/alloc-1/resources/c-1/rendezvous"
    assert caller.ask("GET", path, headers=TOKEN)[1] == {"rendezvousInfo": {}}


def test_error_outside_the_api_is_forwarded(caller: Caller, plane: FakeControlPlane) -> None:
    plane.answer_to = lambda method, path, body: (503, {"status": "down"})
    assert caller.ask("GET", "/health")[:2] == (503, {"status": "down"})


def test_request_of_a_disconnected_caller_is_not_retried(
    caller: Caller, plane: FakeControlPlane
) -> None:
    plane.answer_to = lambda method, path, body: (503, {})
    connection = http.client.HTTPConnection("127.0.0.1", caller.gateway.port, timeout=60)
    connection.request("GET", "/api/v1/master", headers=TOKEN)
    plane.until(lambda: len(plane.forwarded) >= 2)
    connection.close()
    later_request = threading.Event()

    def answered(method: str, path: str, body: bytes) -> tuple[int, Any]:
        if path.endswith("/later"):
            later_request.set()
            return 200, {}
        return 503, {}

    plane.answer_to = answered
    count = len(plane.forwarded)
    caller.ask("GET", "/api/v1/later", headers=TOKEN)
    assert later_request.is_set()
    assert len(plane.forwarded) <= count + 2


def test_responses_of_unknown_length_are_streamed(caller: Caller, tmp_path: Path) -> None:
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


def test_caller_can_read_the_rejection_after_sending_a_large_body(caller: Caller) -> None:
    body = bytes(8 * 1024 * 1024)
    with socket.create_connection(("127.0.0.1", caller.gateway.port), timeout=60) as connection:
        head = f"POST /api/v1/experiments HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)
        assert connection.recv(100).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize("length", ["-5", "²", "1" * 5000, "five"])
def test_rejects_an_invalid_content_length(caller: Caller, length: str) -> None:
    headers = {**TOKEN, "Content-Length": length}
    assert caller.ask("POST", "/api/v1/experiments", headers=headers)[0] in (400, 413)


def test_invalid_preemption_timeout_gets_a_response(caller: Caller) -> None:
    caller.sessions.set_preempting({"alloc-1": math.inf})
    for timeout in ("%C2%B2", "-1", "1" * 5000):
        answer = caller.ask("GET", f"{PREEMPTION}?timeoutSeconds={timeout}", headers=TOKEN)
        assert answer[:2] == (200, {"preempt": True})
