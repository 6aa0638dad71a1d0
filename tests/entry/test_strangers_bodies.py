"""A host reads little from strangers, waits with limits, and authenticates callers before it stores their bodies."""

import asyncio
import hashlib
from collections.abc import Callable, Iterator, MutableMapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from det_controlplane.adapters.notifier import LocalNotifier
from det_controlplane.api import routes
from det_controlplane.api.app import App
from det_controlplane.api.http import (
    EMPTY,
    FORM_BODY,
    MAX_BODY,
    REPORT_BODY,
    STRANGERS_BODY,
    Answer,
    Request,
    Wait,
)
from det_controlplane.api.router import Access, Router, post
from det_controlplane.db.engine.database import Database
from det_controlplane.entry.server import bodies, protocol
from det_controlplane.entry.server.api_server import LISTEN_FD, listening_socket
from det_controlplane.entry.server.asgi import AsgiApp
from det_controlplane.entry.server.bodies import Body, BodyMemory
from det_controlplane.services.context import Context

from tests.entry.test_http_protocol import on_port
from tests.support.api import Api, Caller, api_over
from tests.support.played_agent import PlayedAgent, task_of

PART = b"x" * 16_384


@pytest.fixture
def api(database: Database, tmp_path: Path) -> Iterator[Api]:
    with api_over(database, tmp_path) as new_api:
        yield new_api


class Sender:
    """A client that sends part after part, and counts the read ones."""

    def __init__(self, parts: int) -> None:
        self._parts, self.read, self.status = parts, 0, 0
        self.read_before = 0  # the answer
        self.headers: dict[bytes, bytes] = {}

    async def receive(self) -> MutableMapping[str, Any]:
        self.read += 1
        return {"type": "http.request", "body": PART, "more_body": self.read < self._parts}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if "status" in message:
            self.status, self.read_before = message["status"], self.read
        self.headers |= {name.lower(): value for name, value in message.get("headers", ())}


def scope(method: str, path: str, token: str = "") -> dict[str, Any]:
    headers = [(b"authorization", f"Bearer {token}".encode())] if token else []
    return {
        "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b"",
        "headers": headers, "client": ("127.0.0.1", 1),
    }  # fmt: skip


def sent(
    api: Api,
    sender: Sender,
    method: str,
    path: str,
    token: str = "",
    room: BodyMemory | None = None,
) -> Sender:
    app = AsgiApp(api.app, LocalNotifier(), room=room)
    asyncio.run(app(scope(method, path, token), sender.receive, sender.send))
    return sender


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/api/v1/experiments", 401),
        ("POST", "/agents/v1/poll", 401),
        ("POST", "/agents/v1/logs", 401),
        ("POST", "/api/v1/nowhere", 404),
        ("PUT", "/objects/contexts/x.tar.gz", 404),
    ],
)
def test_unauthenticated_caller_is_rejected_after_a_small_part(
    api: Api, method: str, path: str, status: int
) -> None:
    sender = sent(api, Sender(10_000), method, path)
    assert sender.status == status
    assert sender.read_before * len(PART) <= STRANGERS_BODY + 2 * len(PART)
    assert sender.read * len(PART) <= MAX_BODY + STRANGERS_BODY + 2 * len(PART)


def test_public_paths_accept_only_small_bodies(api: Api) -> None:
    for path in ("/api/v1/auth/login", "/agents/v1/join"):
        sender = sent(api, Sender(10_000), "POST", path)
        assert sender.status == 413
        assert sender.read * len(PART) <= 5 * STRANGERS_BODY


def test_signed_in_user_can_send_a_large_body(api: Api) -> None:
    user = api.signed_in("determined")
    sender = sent(api, Sender(100), "POST", "/api/v1/experiments", user.token)
    assert sender.read == 100
    assert sender.status == 400


def test_upload_with_a_forged_url_is_rejected_before_it_is_read(api: Api) -> None:
    from det_controlplane.entry.server.object_routes import object_routes

    api.app = App(api.ctx, Router((*routes.every(), *object_routes(api.ctx.objects))))  # type: ignore[arg-type]
    sender = sent(api, Sender(10_000), "PUT", "/objects/contexts/x.tar.gz")
    assert sender.status == 403
    assert sender.read_before * len(PART) <= STRANGERS_BODY + 2 * len(PART)
    made_up = {"size": ["9"], "expires": ["9999999999"], "signature": ["ä"]}
    path = "/objects/contexts/x.tar.gz"
    assert api.anonymous().ask("PUT", path, query=made_up).status == 403
    user, content = api.signed_in("determined"), PART * 10
    digest = hashlib.sha256(content).hexdigest()
    response = user.post("/api/v1/contexts", {"size": len(content), "sha256": digest})
    path, _, query = response["uploadUrl"].removeprefix("http://localhost").partition("?")
    sender = Sender(10)
    upload = {
        "type": "http", "method": "PUT", "path": path, "raw_path": path.encode(), "headers": [],
        "query_string": query.encode(), "client": ("127.0.0.1", 1),
    }  # fmt: skip
    asyncio.run(AsgiApp(api.app, LocalNotifier())(upload, sender.receive, sender.send))
    assert sender.status == 200


def test_missing_body_times_out(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "PART_S", 0.01)

    class Silent(Sender):
        async def receive(self) -> MutableMapping[str, Any]:
            await asyncio.Event().wait()
            raise AssertionError("unreachable")

    assert sent(api, Silent(1), "POST", "/api/v1/auth/login").status == 408


class Clocked(Sender):
    """A client that sends a part of so many bytes each second."""

    def __init__(self, parts: int, size: int) -> None:
        super().__init__(parts)
        self._size, self.now_s = size, 0.0

    def clock(self) -> float:
        return self.now_s

    async def receive(self) -> MutableMapping[str, Any]:
        self.now_s += 1
        return {**await super().receive(), "body": bytes(self._size)}


@pytest.mark.parametrize(
    ("parts", "size", "arrives"),
    [
        (59, 1, True),
        (600, 1, False),
        (600, bodies.LEAST_BYTES_S // 2, False),
        (600, bodies.LEAST_BYTES_S + 1, True),
    ],
)
def test_slow_body_times_out(parts: int, size: int, arrives: bool) -> None:
    """Each part is in time, but the whole body is not."""
    client = Clocked(parts, size)
    body = Body(client.receive, BodyMemory(), clock=client.clock)
    reading = body.read(parts * size)
    if arrives:
        assert asyncio.run(reading)
    else:
        with pytest.raises(bodies.TooSlow):
            asyncio.run(reading)


def test_large_bodies_share_a_memory_budget() -> None:
    """A client that states the size is refused before it sends; another one when the room is used up."""
    large, room = 4 * STRANGERS_BODY, BodyMemory(5 * STRANGERS_BODY)

    def body(told_size: int) -> Body:
        return Body(Sender(large // len(PART)).receive, room, told_size)

    first = body(large)
    assert asyncio.run(first.read(large))
    response = body(large)
    with pytest.raises(bodies.BodyMemoryFull):
        asyncio.run(response.read(large))
    unsized = body(0)
    with pytest.raises(bodies.BodyMemoryFull):
        asyncio.run(unsized.read(large))
    for finished_response in (first, response, unsized):
        finished_response.close()
    assert asyncio.run(body(large).read(large))


def test_slow_large_bodies_do_not_exclude_others() -> None:
    """A slow body takes only the room of the bytes that arrived."""
    large, room = 4 * STRANGERS_BODY, BodyMemory(5 * STRANGERS_BODY)

    async def one_during_slow_bodies() -> bool:
        waiting = asyncio.Event()

        class Slow(Sender):
            async def receive(self) -> MutableMapping[str, Any]:
                waiting.set()
                await asyncio.Event().wait()
                raise AssertionError("unreachable")

        slow = asyncio.create_task(Body(Slow(2).receive, room, large).read(large))
        await waiting.wait()
        try:
            return await Body(Sender(large // len(PART)).receive, room, large).read(large)
        finally:
            slow.cancel()
            await asyncio.gather(slow, return_exceptions=True)

    assert asyncio.run(one_during_slow_bodies())


class Unfinished(Sender):
    """A client that sends all parts except the last until it may continue."""

    def __init__(self, parts: int) -> None:
        super().__init__(parts)
        self.almost, self.goes_on = asyncio.Event(), asyncio.Event()

    async def receive(self) -> MutableMapping[str, Any]:
        if self.read == self._parts - 1:
            self.almost.set()
            await self.goes_on.wait()
        return await super().receive()


def test_large_bodies_are_limited_by_user(api: Api) -> None:
    """Other sessions and tasks of the user count for the same user."""
    size = 4 * STRANGERS_BODY
    app = AsgiApp(api.app, LocalNotifier(), room=BodyMemory(3 * size, share=size + STRANGERS_BODY))
    user, again, admin = (api.signed_in(name) for name in ("determined", "determined", "admin"))
    task, _ = task_of(api, user)

    async def status_of(caller: Caller, sender: Sender) -> int:
        request_scope = scope("POST", "/api/v1/experiments", caller.token)
        await app(request_scope, sender.receive, sender.send)
        return sender.status

    async def all_statuses() -> tuple[list[int], int]:
        unfinished = Unfinished(size // len(PART))
        first = asyncio.create_task(status_of(user, unfinished))
        await unfinished.almost.wait()
        others = [await status_of(c, Sender(size // len(PART))) for c in (again, task, admin)]
        unfinished.goes_on.set()
        return others, await first

    # A body with room is read and is not JSON.
    assert asyncio.run(all_statuses()) == ([503, 503, 400], 400)


def test_large_bodies_are_counted_by_user_agent_or_address(api: Api) -> None:
    from det_controlplane.entry.server.object_routes import object_routes

    app = App(api.ctx, Router((*routes.every(), *object_routes(api.ctx.objects))))  # type: ignore[arg-type]
    user, agent = api.signed_in("determined"), PlayedAgent(api, "agent-1")
    agent.join()
    response = user.post(
        "/api/v1/contexts", {"size": 9, "sha256": hashlib.sha256(b"9" * 9).hexdigest()}
    )
    url = urlsplit(response["uploadUrl"])

    def counted(method: str, path: str, token: str = "", query: str = "") -> str:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        request = Request(method, path, parse_qs(query), headers, client="192.0.2.7")
        app.admit(request)
        return request.sender

    assert counted("POST", "/api/v1/experiments", user.token) == "user 2"
    assert counted("POST", "/agents/v1/logs", agent.caller.token) == "agent agent-1"
    assert counted("PUT", url.path, query=url.query) == "address 192.0.2.7"


def test_server_listens_on_loopback_by_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PORT", "0")
    monkeypatch.delenv("HOST", raising=False)
    monkeypatch.delenv(LISTEN_FD, raising=False)
    for listen_host, host in (("", "127.0.0.1"), ("0.0.0.0", "0.0.0.0")):
        if listen_host:
            monkeypatch.setenv("HOST", listen_host)
        with listening_socket() as listening:
            assert listening.getsockname()[0] == host


def test_large_request_without_memory_gets_retry_after(api: Api) -> None:
    user = api.signed_in("determined")
    sender = sent(api, Sender(100), "POST", "/api/v1/experiments", user.token, room=BodyMemory(1))
    assert (sender.status, sender.headers[b"retry-after"]) == (503, b"5")
    assert sender.read_before * len(PART) <= STRANGERS_BODY + 2 * len(PART)


class Patient(Sender):
    """A client that stays until it is answered."""

    async def receive(self) -> MutableMapping[str, Any]:
        if self.read == self._parts:
            await asyncio.Event().wait()
        return await super().receive()


def test_waiting_rank_releases_its_memory(api: Api) -> None:
    parts, notifier, bodies_seen = 4 * STRANGERS_BODY // len(PART), LocalNotifier(), list[int]()

    def gather(_: Context, request: Request) -> Answer:
        bodies_seen.append(len(request.body))
        return EMPTY if len(bodies_seen) > 1 else Wait("peers", 60)

    api.ctx.host.may_wait_s = 60
    route = post("/x", gather, access=Access.PUBLIC, admits=lambda _: REPORT_BODY)
    api.app = App(api.ctx, Router((route,)))
    room = BodyMemory(5 * STRANGERS_BODY)
    app = AsgiApp(api.app, notifier, room=room)

    async def rank() -> int:
        sender = Patient(parts)
        await app(scope("POST", "/x"), sender.receive, sender.send)
        return sender.status

    async def ranks() -> list[int]:
        first = asyncio.create_task(rank())
        while notifier.waiting("peers") == 0 and not first.done():
            await asyncio.sleep(0)
        second = await rank()
        notifier.wake("peers")
        return [await first, second]

    assert asyncio.run(ranks()) == [200, 200]
    assert bodies_seen == [4 * STRANGERS_BODY] * 3
    room.take(5 * STRANGERS_BODY, "another")


@pytest.mark.parametrize(
    ("method", "path", "limit"),
    [
        ("POST", "/api/v1/experiments", MAX_BODY),
        ("POST", "/api/v1/commands", MAX_BODY),
        ("POST", "/api/v1/trials/1/metrics", REPORT_BODY),
        ("POST", "/api/v1/templates/a", FORM_BODY),
        ("POST", "/api/v1/users/setting", FORM_BODY),
    ],
)
def test_each_route_has_its_own_body_limit(api: Api, method: str, path: str, limit: int) -> None:
    user = api.signed_in("determined")
    request = Request(method, path, headers={"authorization": f"Bearer {user.token}"})
    assert api.app.admit(request) == limit


class Told:
    """The app behind a server. It signals the begin of its answer."""

    def __init__(self, app: AsgiApp, before: Callable[[], None]) -> None:
        self._app, self._before, self.begun = app, before, asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def sending(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                self._before()
            await send(message)
            self.begun.set()

        await self._app(scope, receive, sending)


def answer_after_sending(app: Told, head: str, size: int) -> bytes:
    """Return the beginning of the answer for a client that reads only after it has sent its whole body."""

    async def use(port: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"{head}Host: x\r\nContent-Length: {size}\r\n\r\n".encode())
        await app.begun.wait()
        for _ in range(size // len(PART)):
            writer.write(PART)
            await writer.drain()
        response = await reader.readuntil(b"\r\n\r\n")
        writer.close()
        return response

    return on_port(app, use)


@pytest.mark.parametrize(
    ("path", "signed_in", "parts", "status"),
    [
        ("/api/v1/experiments", False, 1000, b"401"),
        ("/api/v1/experiments", True, 1000, b"503"),
        ("/api/v1/templates/a", True, 150, b"413"),
    ],
)
def test_client_can_read_a_rejection_after_sending_its_body(
    api: Api,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    signed_in: bool,
    parts: int,
    status: bytes,
) -> None:
    """However long it takes to send."""
    token = api.signed_in("determined").token if signed_in else ""
    app = AsgiApp(api.app, LocalNotifier(), room=BodyMemory(1) if status == b"503" else None)
    host = Told(app, lambda: monkeypatch.setattr(protocol, "HEADERS_S", 0.0))
    head = f"POST {path} HTTP/1.1\r\nAuthorization: Bearer {token}\r\n"
    assert answer_after_sending(host, head, parts * len(PART)).split()[1] == status


def test_stalled_client_can_read_its_timeout(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "PART_S", 0.01)
    host = Told(
        AsgiApp(api.app, LocalNotifier()), lambda: monkeypatch.setattr(bodies, "PART_S", 60.0)
    )
    token = api.signed_in("determined").token
    head = f"POST /api/v1/experiments HTTP/1.1\r\nAuthorization: Bearer {token}\r\n"
    assert answer_after_sending(host, head, 1000 * len(PART)).split()[1] == b"408"


def test_client_that_expects_100_continue_is_rejected_before_its_body(api: Api) -> None:
    async def use(port: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head = "POST /api/v1/experiments HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
        writer.write(f"{head}Connection: close\r\nContent-Length: {MAX_BODY}\r\n\r\n".encode())
        response = await reader.read()
        writer.close()
        return response

    assert on_port(AsgiApp(api.app, LocalNotifier()), use).split()[1] == b"401"
