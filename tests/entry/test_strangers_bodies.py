"""A host reads little of strangers, waits for nobody for ever, and knows callers before it holds what they send."""

import asyncio
import hashlib
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from det_controlplane.adapters.notifier import LocalNotifier
from det_controlplane.api.http import STRANGERS_BODY
from det_controlplane.db.engine import Database
from det_controlplane.entry.server import asgi, protocol
from det_controlplane.entry.server.asgi import AsgiApp
from det_controlplane.entry.server.protocol import PatientProtocol

from tests.support.api import Api, api_over

PART = b"x" * 16_384


@pytest.fixture
def api(database: Database, tmp_path: Path) -> Iterator[Api]:
    with api_over(database, tmp_path) as made:
        yield made


class Sender:
    """A client that sends part after part; counts those that were read."""

    def __init__(self, parts: int) -> None:
        self._parts, self.read, self.status = parts, 0, 0

    async def receive(self) -> MutableMapping[str, Any]:
        self.read += 1
        return {"type": "http.request", "body": PART, "more_body": self.read < self._parts}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        self.status = message.get("status", self.status)


def sent(api: Api, sender: Sender, method: str, path: str, token: str = "") -> Sender:
    app = AsgiApp(api.app, LocalNotifier())
    headers = [(b"authorization", f"Bearer {token}".encode())] if token else []
    scope = {
        "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b"",
        "headers": headers, "client": ("127.0.0.1", 1),
    }  # fmt: skip
    asyncio.run(app(scope, sender.receive, sender.send))
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
def test_a_stranger_sends_little_before_being_refused(
    api: Api, method: str, path: str, status: int
) -> None:
    sender = sent(api, Sender(10_000), method, path)
    assert sender.status == status
    assert sender.read * len(PART) <= STRANGERS_BODY + 2 * len(PART)


def test_open_paths_take_small_bodies_only(api: Api) -> None:
    for path in ("/api/v1/auth/login", "/agents/v1/join"):
        sender = sent(api, Sender(10_000), "POST", path)
        assert sender.status == 413
        assert sender.read * len(PART) <= 5 * STRANGERS_BODY


def test_who_is_known_sends_more(api: Api) -> None:
    user = api.signed_in("determined")
    sender = sent(api, Sender(100), "POST", "/api/v1/experiments", user.token)
    assert sender.read == 100
    assert sender.status == 400


def test_an_upload_by_a_forged_url_is_refused_before_it_is_read(api: Api) -> None:
    from det_controlplane.api import routes
    from det_controlplane.api.app import App
    from det_controlplane.api.router import Router
    from det_controlplane.entry.server.object_routes import object_routes

    api.app = App(api.ctx, Router((*routes.every(), *object_routes(api.ctx.objects))))  # type: ignore[arg-type]
    sender = sent(api, Sender(10_000), "PUT", "/objects/contexts/x.tar.gz")
    assert sender.status == 403
    assert sender.read * len(PART) <= STRANGERS_BODY + 2 * len(PART)
    user, content = api.signed_in("determined"), PART * 10
    digest = hashlib.sha256(content).hexdigest()
    begun = user.post("/api/v1/contexts", {"size": len(content), "sha256": digest})
    path, _, query = begun["uploadUrl"].removeprefix("http://localhost").partition("?")
    sender = Sender(10)
    scope = {
        "type": "http", "method": "PUT", "path": path, "raw_path": path.encode(), "headers": [],
        "query_string": query.encode(), "client": ("127.0.0.1", 1),
    }  # fmt: skip
    asyncio.run(AsgiApp(api.app, LocalNotifier())(scope, sender.receive, sender.send))
    assert sender.status == 200


def test_a_body_that_does_not_come_is_given_up(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asgi, "BODY_S", 0.01)

    class Silent(Sender):
        async def receive(self) -> MutableMapping[str, Any]:
            await asyncio.Event().wait()
            raise AssertionError("unreachable")

    assert sent(api, Silent(1), "POST", "/api/v1/auth/login").status == 0


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "])
def test_a_connection_that_says_nothing_is_closed(
    monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    monkeypatch.setattr(protocol, "HEADERS_S", 0.05)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("no request was made")

    async def left() -> bytes:
        config = uvicorn.Config(app, lifespan="off", log_config=None)
        config.load()
        state = uvicorn.Server(config).server_state
        loop = asyncio.get_running_loop()
        made = await loop.create_server(
            lambda: PatientProtocol(config=config, server_state=state, app_state={}),
            "127.0.0.1",
            0,
        )
        port = made.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(said)
        found = await asyncio.wait_for(reader.read(), 60)
        writer.close()
        made.close()
        return found

    assert asyncio.run(left()) == b""
