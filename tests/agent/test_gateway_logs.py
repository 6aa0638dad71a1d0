"""Lines of logs that containers send to the gateway."""

import gzip
import json
from typing import Any

import pytest
from det_agent import request_bodies
from det_controlplane.core import patterns

from tests.support.fake_controlplane import FakeControlPlane
from tests.support.gateway import TOKEN, Caller


@pytest.mark.parametrize("path", ["/api/v1/task/logs", "/task-logs"])
@pytest.mark.parametrize("packed", [False, True])
def test_logs_are_spooled_with_completed_fields(
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


def test_logs_repeated_with_the_same_key_are_spooled_once(caller: Caller) -> None:
    body = json.dumps({"logs": [{"log": "hello"}]}).encode()
    for key in ("a", "a", "b"):
        caller.ask("POST", "/api/v1/task/logs", body, {**TOKEN, "Idempotency-Key": key})
    assert [line["log"] for line in caller.spooled()] == ["hello", "hello"]


def test_error_while_spooling_rejects_lines_permanently(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("nobody thought of this")

    monkeypatch.setattr(caller.spool, "append", fail)
    body = json.dumps({"logs": [{"log": "hello"}]}).encode()
    status, answer, _ = caller.ask("POST", "/api/v1/task/logs", body, TOKEN)
    assert status == 400
    assert "nobody thought of this" in answer["error"]["error"]


def test_container_cannot_write_into_the_log_of_another_task(caller: Caller) -> None:
    body = json.dumps({"logs": [{"taskId": "task-2", "log": "forged"}]}).encode()
    status, answer, _ = caller.ask("POST", "/api/v1/task/logs", body, TOKEN)
    assert status == 403
    assert "task-1" in answer["error"]["error"]
    assert caller.spooled() == []


@pytest.mark.parametrize("body", [b"", b"nonsense", b"{}", b'{"logs": ["x"]}', b'"x"'])
def test_rejects_a_body_that_is_not_a_list_of_logs(caller: Caller, body: bytes) -> None:
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


def test_rejects_logs_that_unpack_to_too_many_bytes(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("det_agent.gateway.MAX_LOG_BODY_BYTES", 1 << 20)
    body = gzip.compress(b" " * (4 << 20) + b'{"logs": []}')
    headers = {**TOKEN, "Content-Encoding": "gzip"}
    assert caller.ask("POST", "/api/v1/task/logs", body, headers)[0] == 400
    assert caller.spooled() == []


def test_rejects_lines_that_would_fill_the_agents_memory(caller: Caller) -> None:
    """A few kilobytes of a container would otherwise become gigabytes in the agent, which its machine's other
    containers need."""
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
def test_rejects_a_line_that_cannot_be_stored(caller: Caller, odd: dict[str, Any]) -> None:
    """The control plane would refuse it with the lines of other containers that are sent along."""
    body = json.dumps({"logs": [{"log": "fine"}, {"log": "odd", **odd}]}).encode()
    assert caller.ask("POST", "/api/v1/task/logs", body, TOKEN)[0] == 400
    assert caller.spooled() == []


def test_excess_lines_of_a_task_are_dropped(caller: Caller) -> None:
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


def test_bodies_without_a_known_token_are_limited(caller: Caller, plane: FakeControlPlane) -> None:
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
