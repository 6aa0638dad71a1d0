"""Drives an ASGI application without a socket."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Callable, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

Asgi = Callable[..., Any]


@dataclass
class Got:
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes = b""

    @property
    def body(self) -> bytes:
        return gzip.decompress(self.raw) if "content-encoding" in self.headers else self.raw

    def json(self) -> Any:
        return json.loads(self.body)


class Call:
    """A request in flight: the answer so far, and a way to disconnect."""

    def __init__(self, body: bytes) -> None:
        self.got = Got()
        self.parts: asyncio.Queue[bytes] = asyncio.Queue()
        self._incoming: asyncio.Queue[MutableMapping[str, Any]] = asyncio.Queue()
        half = len(body) // 2
        self._incoming.put_nowait({"type": "http.request", "body": body[:half], "more_body": True})
        self._incoming.put_nowait({"type": "http.request", "body": body[half:]})

    def hang_up(self) -> None:
        self._incoming.put_nowait({"type": "http.disconnect"})

    async def receive(self) -> MutableMapping[str, Any]:
        return await self._incoming.get()

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.got.status = message["status"]
            self.got.headers = {k.decode(): v.decode() for k, v in message["headers"]}
        else:
            self.got.raw += message["body"]
            self.parts.put_nowait(message["body"])


def _scope(
    method: str, target: str, headers: dict[str, str], client: str, scheme: str = "http"
) -> dict[str, Any]:
    path, _, query = target.partition("?")
    return {
        "type": "http",
        "scheme": scheme,
        "method": method,
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(k.encode(), v.encode()) for k, v in headers.items()],
        "client": (client, 1),
    }


@asynccontextmanager
async def in_flight(
    app: Asgi,
    target: str,
    *,
    method: str = "GET",
    headers: dict[str, str] | None = None,
    client: str = "10.0.0.1",
) -> AsyncIterator[Call]:
    call = Call(b"")
    scope = _scope(method, target, headers or {}, client)
    running = asyncio.create_task(app(scope, call.receive, call.send))
    try:
        yield call
    finally:
        await asyncio.wait_for(running, 60)


async def requested(
    app: Asgi,
    method: str,
    target: str,
    *,
    body: bytes = b"",
    headers: dict[str, str] | None = None,
    client: str = "10.0.0.1",
    scheme: str = "http",
) -> Got:
    call = Call(body)
    scope = _scope(method, target, headers or {}, client, scheme)
    await app(scope, call.receive, call.send)
    return call.got


def request(app: Asgi, method: str, target: str, **options: Any) -> Got:
    return asyncio.run(requested(app, method, target, **options))
