"""The ASGI host: bodies, headers, long polls and streams around synchronous handlers."""

import asyncio
import gzip
import json
import logging
import threading
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from http.client import IncompleteRead
from typing import Any
from urllib.request import urlopen

import pytest
from det_controlplane.adapters.notifier import LocalNotifier
from det_controlplane.api.http import (
    Answer,
    Batch,
    Request,
    Response,
    Stream,
    Wait,
    bearer_token,
    json_response,
)
from det_controlplane.entry.server import asgi
from det_controlplane.entry.server.asgi import AddressOf, AsgiApp, last_hop
from det_controlplane.entry.server.cloud_run import LARGEST_CONTENT_LENGTH, chunked_when_large
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Missing
from det_controlplane.services.principal import User

from tests.support.apps import Handler, small_app
from tests.support.asgi import Got, in_flight, request, requested
from tests.support.socket_server import behind_socket


def host(
    *handlers: tuple[str, Handler],
    notifier: LocalNotifier | None = None,
    may_wait_s: float = 30.0,
    method: str = "GET",
    max_body: int = 1000,
    address_of: AddressOf | None = None,
) -> AsgiApp:
    app = small_app(*handlers, method=method, may_wait_s=may_wait_s)
    return AsgiApp(app, notifier or LocalNotifier(), max_body=max_body, address_of=address_of)


def echo(_: Context, r: Request) -> Response:
    return json_response(
        {
            "method": r.method,
            "params": dict(r.params),
            "query": {k: list(v) for k, v in r.query.items()},
            "cookie": r.headers.get("cookie"),
            "body": r.body.decode(),
            "client": r.client,
        }
    )


def test_handler_receives_all_parts_of_a_request() -> None:
    response = request(
        host(("/things/{id}", echo), method="POST"),
        "POST",
        "/things/a%2Fb%20c/?x=1&x=2&empty=&s=%C3%A4",
        body=b"hello",
        headers={"Cookie": "auth=t"},
    )
    assert response.status == 200
    assert response.json() == {
        "method": "POST",
        "params": {"id": "a/b c"},
        "query": {"x": ["1", "2"], "empty": [""], "s": ["ä"]},
        "cookie": "auth=t",
        "body": "hello",
        "client": "10.0.0.1",
    }
    assert response.headers["content-length"] == str(len(response.raw))
    assert response.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("address_of", "address"), [(None, "10.0.0.1"), (last_hop, "198.51.100.7")]
)
def test_client_address_comes_from_a_configured_proxy(
    address_of: AddressOf | None, address: str
) -> None:
    hops = {"X-Forwarded-For": "192.0.2.1, 198.51.100.7"}
    response = request(host(("/x", echo), address_of=address_of), "GET", "/x", headers=hops)
    assert response.json()["client"] == address


def test_client_address_without_a_proxy_header_is_the_peer() -> None:
    app = host(("/x", echo), address_of=last_hop)
    assert request(app, "GET", "/x").json()["client"] == "10.0.0.1"


def test_head_returns_the_headers_of_get_without_a_body() -> None:
    app = host(("/x", lambda c, r: Response(b'{"a":1}')))
    response = request(app, "HEAD", "/x")
    assert (response.status, response.headers["content-length"], response.raw) == (200, "7", b"")


@pytest.mark.parametrize(
    ("method", "size", "tells"),
    [
        ("GET", LARGEST_CONTENT_LENGTH, True),
        ("GET", LARGEST_CONTENT_LENGTH + 1, False),
        ("HEAD", LARGEST_CONTENT_LENGTH + 1, True),
    ],
)
def test_large_files_on_cloud_run_have_no_content_length(
    method: str, size: int, tells: bool
) -> None:
    """Files announce theirs by themselves, as archives of checkpoints and tasks behind the relay do."""
    headers = {"Content-Length": str(size), "ETag": "v1"}

    def file(c: Context, r: Request) -> Stream:
        return Stream(lambda _: Batch([], None, True), None, headers=headers, is_file=True)

    response = request(chunked_when_large(host(("/x", file))), method, "/x")
    assert (response.headers["etag"], "content-length" in response.headers) == ("v1", tells)


def test_large_response_is_compressed_for_remote_clients() -> None:
    large = json.dumps(["word"] * 500).encode()
    app = host(("/x", lambda c, r: Response(large)))
    gzipped = request(app, "GET", "/x", headers={"accept-encoding": "gzip, br"})
    assert gzipped.headers["content-encoding"] == "gzip"
    assert len(gzipped.raw) < len(large) / 5
    assert gzipped.body == large
    assert request(app, "GET", "/x").raw == large
    near = request(app, "GET", "/x", headers={"accept-encoding": "gzip"}, client="127.0.0.1")
    assert near.raw == large


@pytest.mark.parametrize("size", [1001, 3000, 5000])
def test_rejects_a_body_above_the_limit(size: int) -> None:
    app = host(("/x", echo), method="POST", max_body=1000)
    response = request(app, "POST", "/x", body=b"x" * size)
    assert response.status == 413
    assert "larger than" in response.json()["error"]["error"]


def test_accepts_a_body_of_exactly_the_limit() -> None:
    app = host(("/x", echo), method="POST", max_body=1000)
    assert request(app, "POST", "/x", body=b"x" * 1000).status == 200


def most_at_once(body: bytes, headers: dict[str, str], expected: int) -> int:
    """Send a dozen requests; return how many were worked on at the same time."""
    lock, working, most = threading.Lock(), 0, 0
    reached, exceeded = threading.Event(), threading.Event()

    def handler(_: Context, r: Request) -> Response:
        nonlocal working, most
        with lock:
            working += 1
            most = max(most, working)
            if working >= expected:
                reached.set()
            if working > expected:
                exceeded.set()
        reached.wait(60)
        exceeded.wait(0.1)
        with lock:
            working -= 1
        return Response()

    app = host(("/x", handler), method="POST", max_body=10_000)

    async def all_of_them() -> None:
        requests = [requested(app, "POST", "/x", body=body, headers=headers) for _ in range(12)]
        assert [response.status for response in await asyncio.gather(*requests)] == [200] * 12

    asyncio.run(all_of_them())
    return most


def test_large_requests_are_limited_to_a_few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let few large bodies in at once: parsed, a body takes many times its bytes, a packed one even more."""
    monkeypatch.setattr(asgi, "FORM_BODY", 1000)
    assert most_at_once(b"x" * 2000, {}, 4) == 4
    assert most_at_once(gzip.compress(b"{}"), {"content-encoding": "gzip"}, 4) == 4
    assert most_at_once(b"{}", {}, 12) == 12


def test_slow_requests_of_one_user_do_not_take_all_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All tokens of a user count together, and so do all requests without a token."""
    users = {"first": 1, "second": 1, "other": 2}
    go_on, lock, working = threading.Event(), threading.Lock(), 0

    def slow(_: Context, r: Request) -> Response:
        nonlocal working
        with lock:
            working += 1
        go_on.wait(60)
        return Response()

    app = small_app(("/slow", slow), ("/quick", echo))
    handle = app.handle

    def known(r: Request) -> Answer:
        answer, name = handle(r), bearer_token(r)
        r.principal = User(users[name], name, False, 1) if name else None
        return answer

    monkeypatch.setattr(app, "handle", known)
    host = AsgiApp(app, LocalNotifier())

    def ask(path: str, token: str) -> Coroutine[Any, Any, Got]:
        return requested(host, "GET", path, headers={"authorization": f"Bearer {token}"})

    async def others_during_slow_requests(*tokens: str) -> int:
        for token in users:
            await ask("/quick", token)
        slow_ones = [asyncio.create_task(ask("/slow", token)) for token in tokens * 20]
        try:
            while working < asgi._OF_ONE_CALLER:
                await asyncio.sleep(0.01)
            response = await asyncio.wait_for(ask("/quick", "other"), 60)
            assert response.status == 200
            return working
        finally:
            go_on.set()
            await asyncio.gather(*slow_ones)

    assert asyncio.run(others_during_slow_requests("first", "second")) == asgi._OF_ONE_CALLER
    go_on.clear()
    working, host = 0, AsgiApp(app, LocalNotifier())
    assert asyncio.run(others_during_slow_requests("")) == asgi._OF_ONE_CALLER


def test_long_poll_returns_when_its_topic_wakes() -> None:
    notifier, ready = LocalNotifier(), [False]

    def poll(_: Context, r: Request) -> Answer:
        return json_response({"final": r.final}) if ready[0] else Wait("news", 60)

    async def scenario() -> None:
        async with in_flight(host(("/x", poll), notifier=notifier), "/x") as call:
            await _until(lambda: notifier.waiting("news") == 1)
            ready[0] = True
            notifier.wake("news")
        assert call.got.json() == {"final": False}

    asyncio.run(scenario())


def test_wake_between_read_and_wait_is_not_lost() -> None:
    notifier, calls = LocalNotifier(), [0]

    def poll(_: Context, r: Request) -> Answer:
        calls[0] += 1
        if calls[0] == 1:
            notifier.wake("news")
            return Wait("news", 60)
        return json_response({"calls": calls[0]})

    assert request(host(("/x", poll), notifier=notifier), "GET", "/x").json() == {"calls": 2}


def test_expired_long_poll_gets_one_final_call() -> None:
    def poll(_: Context, r: Request) -> Answer:
        return json_response({"final": True}) if r.final else Wait("silence", 0.01)

    assert request(host(("/x", poll)), "GET", "/x").json() == {"final": True}


def test_stopping_server_ends_long_polls_and_streams(
    caplog: pytest.LogCaptureFixture,
) -> None:
    notifier = LocalNotifier()

    def poll(_: Context, r: Request) -> Answer:
        return json_response({"final": True}) if r.final else Wait("silence", 60)

    def stream(_: Context, r: Request) -> Answer:
        return Stream(numbers([[b"1\n"]], ends=False), topic="more")

    app = host(("/poll", poll), ("/stream", stream), notifier=notifier, may_wait_s=60)
    with ThreadPoolExecutor(2) as threads:
        with behind_socket(app) as url:
            poll_response = threads.submit(urlopen, f"{url}/poll", timeout=60)
            streamed = urlopen(f"{url}/stream", timeout=60)
            asyncio.run(_until(lambda: notifier.waiting("silence") == 1))
        with poll_response.result() as answer:
            assert json.load(answer) == {"final": True}
        with streamed, pytest.raises(IncompleteRead):
            streamed.read()
    assert "Traceback" not in caplog.text


def test_host_without_waiting_makes_the_first_call_final() -> None:
    finals: list[bool] = []

    def poll(_: Context, r: Request) -> Answer:
        finals.append(r.final)
        return json_response({})

    request(host(("/x", poll), may_wait_s=0), "GET", "/x")
    assert finals == [True]


def test_disconnect_ends_a_long_poll() -> None:
    notifier = LocalNotifier()

    async def scenario() -> None:
        app = host(("/x", lambda c, r: Wait("silence", 60)), notifier=notifier)
        async with in_flight(app, "/x") as call:
            await _until(lambda: notifier.waiting("silence") == 1)
            call.hang_up()
        assert call.got.status == 0
        await _until(lambda: notifier.waiting("silence") == 0)

    asyncio.run(scenario())


def numbers(batches: Iterable[list[bytes]], *, ends: bool = True) -> Callable[..., Batch]:
    rest = list(batches)

    def fetch(cursor: Any) -> Batch:
        at = cursor or 0
        lines = rest[at] if at < len(rest) else []
        return Batch(lines, at + 1, done=ends and at + 1 >= len(rest))

    return fetch


def test_stream_continues_after_a_pause() -> None:
    notifier = LocalNotifier()
    fetch = numbers([[b"1\n", b"2\n"], [], [b"3\n"]])

    async def scenario() -> None:
        app = host(("/x", lambda c, r: Stream(fetch, topic="logs:1")), notifier=notifier)
        async with in_flight(app, "/x") as call:
            assert await asyncio.wait_for(call.parts.get(), 60) == b"1\n2\n"
            await _until(lambda: notifier.waiting("logs:1") == 1)
            notifier.wake("logs:1")
        assert call.got.raw == b"1\n2\n3\n"
        assert "content-length" not in call.got.headers

    asyncio.run(scenario())


def test_unfinished_stream_continues_without_a_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(asgi, "_STREAM_PAUSE_S", 3600.0)

    def fetch(cursor: Any) -> Batch:
        at = (cursor or 0) + 1
        return Batch([b"found\n"] if at == 20 else [], at, done=at == 20, unfinished=True)

    response = request(host(("/x", lambda c, r: Stream(fetch, topic="t"))), "GET", "/x")
    assert response.raw == b"found\n"


def test_disconnect_ends_a_search() -> None:
    def fetch(cursor: Any) -> Batch:
        return Batch([b"1\n"] if cursor is None else [], 1, done=False, unfinished=True)

    async def scenario() -> None:
        async with in_flight(host(("/x", lambda c, r: Stream(fetch))), "/x") as call:
            await asyncio.wait_for(call.parts.get(), 60)
            call.hang_up()

    asyncio.run(scenario())


@pytest.mark.parametrize("batches", [[[b"1\n"]], [[b"1\n"]] * 10**6], ids=["silent", "busy"])
def test_disconnect_ends_a_stream(batches: list[list[bytes]]) -> None:
    async def scenario() -> None:
        app = host(("/x", lambda c, r: Stream(numbers(batches, ends=False), topic="t")))
        async with in_flight(app, "/x") as call:
            await asyncio.wait_for(call.parts.get(), 60)
            call.hang_up()
        assert 2 <= len(call.got.raw) < 10**6

    asyncio.run(scenario())


def test_failing_stream_ends_with_an_error_line() -> None:
    def fetch(cursor: Any) -> Batch:
        if cursor is None:
            return Batch([b"1\n"], 1, done=False)
        raise Missing("trial 9 not found")

    response = request(host(("/x", lambda c, r: Stream(fetch))), "GET", "/x")
    first, second = response.raw.splitlines()
    assert first == b"1"
    error = json.loads(second)["error"]
    assert (error["grpcCode"], error["httpCode"]) == (5, 404)
    assert error["message"] == "trial 9 not found"


def test_unexpected_error_shows_a_reference_but_no_details(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(_: Context, r: Request) -> Answer:
        raise KeyError("secret")

    with caplog.at_level(logging.ERROR):
        response = request(host(("/x", broken)), "GET", "/x")
    assert response.status == 500
    assert b"secret" not in response.raw
    assert "000000000000" in response.json()["error"]["error"]
    assert "secret" in caplog.text


async def _until(condition: Callable[[], bool]) -> None:
    async def poll() -> None:
        while not condition():
            await asyncio.sleep(0.001)

    await asyncio.wait_for(poll(), 60)
