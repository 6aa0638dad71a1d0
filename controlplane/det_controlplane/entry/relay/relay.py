"""The relay: requests to `/proxy/` go through the websocket of the agent that runs the task."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from det_controlplane.adapters.relay_streams import Stream, StreamReset
from det_controlplane.api.app import App
from det_controlplane.api.errors import BadRequest, PermissionDenied
from det_controlplane.api.http import Request, Response, bearer_token
from det_controlplane.core.relay_frames import Cause
from det_controlplane.entry.relay import headers as h
from det_controlplane.entry.relay.agents import Agents
from det_controlplane.entry.relay.hangups import run_until_hangup
from det_controlplane.entry.relay.headers import Headers
from det_controlplane.entry.relay.http import ClientGone, HttpExchange, refuse_tunnels
from det_controlplane.entry.relay.permits import Permit, Permits
from det_controlplane.entry.relay.sockets import TCP_SUBPROTOCOL, SocketBridge, carry_tcp, hang_up
from det_controlplane.entry.server.limits import OpenStreams, of_address
from det_controlplane.services.context import RELAY_PATH
from det_controlplane.services.identity import authentication
from det_controlplane.services.tasks import proxying
from det_controlplane.services.tasks.proxying import PortUnreachable, Target

PREFIX = "/proxy/"
# How often it is stored that traffic went to a task.
TOUCHED_EVERY_S = 3.0
InThread = Callable[..., Awaitable[Any]]

log = logging.getLogger("det.relay")


class Relay:
    """The part of an ASGI application that handles requests for tasks and the websockets of agents."""

    def __init__(
        self,
        app: App,
        in_thread: InThread,
        in_turn: InThread,
        know: Callable[[Request, str], None],
        open_streams: OpenStreams,
    ) -> None:
        self._app = app
        self._in_thread, self._in_turn, self._know = in_thread, in_turn, know
        self._open = open_streams
        self._agents = Agents(self._missed)
        self._permits = Permits(self._is_good)
        app.ctx.host.open_traffic = self._permits.tasks
        self._touched: set[str] = set()
        self._touching: asyncio.Task[None] | None = None
        self._public = urlsplit(app.ctx.host.public_url)

    def takes(self, scope: Any) -> bool:
        if scope["type"] not in ("http", "websocket"):
            return False
        path: str = scope["path"]
        return path.startswith(PREFIX) or (scope["type"] == "websocket" and path == RELAY_PATH)

    async def __call__(self, scope: Any, request: Request, receive: Any, send: Any) -> None:
        try:
            if scope["path"] == RELAY_PATH:
                agent = await self._in_turn(
                    request, authentication.agent_of, self._app.ctx, bearer_token(request)
                )
                self._know(request, agent.caller)
                with self._open.held(agent.caller):
                    return await self._agents.serve(agent.id, receive, send)
            await self._proxy(scope, request, receive, send)
        except ClientGone:
            # uvicorn closes the connection; this is the only sign of an incomplete answer.
            log.debug("an answer to %s broke off", scope["path"])
        except PortUnreachable as e:
            if (
                e.tcp
                and scope["type"] == "websocket"
                and TCP_SUBPROTOCOL not in scope["subprotocols"]
            ):
                return await hang_up(str(e), receive, send)
            await refuse(scope, receive, send, self._app.failed(request, e))
        except Exception as e:
            await refuse(scope, receive, send, self._app.failed(request, e))

    async def _proxy(self, scope: Any, request: Request, receive: Any, send: Any) -> None:
        refuse_tunnels(scope)
        scope = {**scope, "headers": h.restore_host(scope["headers"], self._public.netloc)}
        if h.is_of_another_site(scope["type"], scope.get("method", "GET"), scope["headers"]):
            raise PermissionDenied(
                "pages of other sites may link to tasks, and not embed or call them"
            )
        service, slash, _ = unquote(request.path.removeprefix(PREFIX)).partition("/")
        if not slash:
            await _redirect(scope, receive, send)
            return
        headers: Headers = list(scope["headers"])
        tokens = h.tokens_of(headers, scope["query_string"])
        call = (proxying.target, self._app.ctx, service, tokens)
        target: Target = await self._in_turn(request, *call)
        if target.caller is not None:
            self._know(request, target.caller)
        if h.is_service_worker(headers) and not target.is_the_viewers:
            raise PermissionDenied(
                "service workers of a task are for its owner, signed in here, only"
            )
        streams: list[Stream] = []
        with self._open.held(target.caller or of_address(request.client)):
            serving = self._serve(scope, service, target, streams, receive, send)
            await run_until_hangup(scope, lambda: sum(stream.sent for stream in streams), serving)

    async def _serve(
        self,
        scope: Any,
        service: str,
        target: Target,
        streams: list[Stream],
        receive: Any,
        send: Any,
    ) -> None:
        stream = await self._opened(target)
        streams.append(stream)
        try:
            with self._permits.held(Permit(service, target.opened_by, target.session_id), stream):
                await self._carry(scope, service, target, stream, receive, send)
        finally:
            await stream.reset(Cause.CANCELLED, "the request is over")

    async def _missed(self, agent_id: str) -> None:
        await self._in_thread(proxying.reconnect_agent, self._app.ctx, agent_id)

    async def _is_good(self, permit: Permit) -> bool:
        arguments = (permit.service, permit.opened_by, permit.session_id)
        good: bool = await self._in_thread(proxying.is_still_open, self._app.ctx, *arguments)
        return good

    async def _opened(self, target: Target) -> Stream:
        try:
            link = await self._agents.link(target.agent_id)
            stream = await link.open(target.container_id, target.port)
        except StreamReset as e:
            why = f"task {target.task_id} cannot be reached: {e}"
            raise PortUnreachable(why, tcp=target.tcp) from e
        stream.on_traffic = lambda: self._touch(target.task_id)
        self._touch(target.task_id)
        return stream

    async def _carry(
        self, scope: Any, service: str, target: Target, stream: Stream, receive: Any, send: Any
    ) -> None:
        headers = h.towards_task(scope["headers"], bearer_is_ours=target.bearer_is_ours)
        headers = _add_forwarded_headers(scope, headers, service, self._public)
        more = [h.cookie_to_keep(target.to_keep, service, headers)] if target.to_keep else []
        path: bytes = scope["raw_path"]
        query: bytes = scope["query_string"]
        address = path + b"?" + query if query else path
        filter_headers = partial(h.from_task, service=service)
        if scope["type"] == "websocket":
            subprotocols: list[str] = scope["subprotocols"]
            if target.tcp or TCP_SUBPROTOCOL in subprotocols:
                return await carry_tcp(stream, subprotocols, receive, send)
            host = next((v.decode("latin-1") for n, v in headers if n.lower() == b"host"), "task")
            bridge = SocketBridge(stream, filter_headers, receive, send)
            return await bridge.run(host, address.decode("latin-1"), subprotocols, headers, more)
        if target.tcp:
            raise _RawTcpPort(target)
        # Each request has its own connection, so that clients share no state.
        headers.append((b"connection", b"close"))
        if any(name.lower() == b"transfer-encoding" for name, _ in scope["headers"]):
            headers.append((b"transfer-encoding", b"chunked"))
        exchange = HttpExchange(stream, filter_headers, receive, send)
        return await exchange.run(scope["method"].encode(), address, headers, more)

    def _touch(self, task_id: str) -> None:
        """Note traffic; it is stored at once, and then at most every few seconds."""
        self._touched.add(task_id)
        if self._touching is None or self._touching.done():
            self._touching = asyncio.create_task(self._store_touched())

    async def _store_touched(self) -> None:
        while self._touched:
            task_ids, self._touched = sorted(self._touched), set()
            try:
                await self._in_thread(proxying.touch, self._app.ctx, task_ids)
            except Exception as e:
                log.warning("the traffic of tasks could not be noted: %s", e)
            await asyncio.sleep(TOUCHED_EVERY_S)


class _RawTcpPort(BadRequest):
    def __init__(self, target: Target) -> None:
        super().__init__(
            f"port {target.port} of task {target.task_id} carries raw TCP: use"
            " 'python -m determined.cli.tunnel', or 'det shell open'"
        )


def _add_forwarded_headers(
    scope: Any, headers: Headers, service: str, public: SplitResult
) -> Headers:
    """Add the headers by which reverse proxies describe the original request.

    CloudFront does not send the scheme and connects to a relay by HTTP. A request for the cluster's own address came by
    HTTPS."""
    names = {name.lower() for name, _ in headers}
    host = next((value for name, value in headers if name.lower() == b"host"), b"")
    at_public = host == public.netloc.encode("latin-1") and public.scheme == "https"
    secure = at_public or scope["scheme"] in ("https", "wss")
    additions = [
        (b"x-forwarded-proto", b"https" if secure else b"http"),
        (b"x-forwarded-host", host),
        (b"x-forwarded-prefix", f"{PREFIX}{service}".encode("latin-1", "replace")),
    ]
    client = scope.get("client")
    if client:
        additions.append((b"x-forwarded-for", client[0].encode()))
    return [*headers, *((name, value) for name, value in additions if name not in names)]


async def _redirect(scope: Any, receive: Any, send: Any) -> None:
    """Add the slash that relative addresses of the task's pages need."""
    query = scope["query_string"]
    to = scope["raw_path"] + b"/" + (b"?" + query if query else b"")
    answer = Response(b"", 307, headers={"location": to.decode("latin-1")})
    await refuse(scope, receive, send, answer)


async def refuse(scope: Any, receive: Any, send: Any, answer: Response) -> None:
    """Answer a request, or a websocket that is not opened."""
    kind = "http" if scope["type"] == "http" else "websocket.http"
    if kind != "http":
        await receive()
    headers = {"content-type": answer.media_type, **answer.headers}
    raw = [(n.lower().encode("latin-1"), v.encode("latin-1")) for n, v in headers.items()]
    if kind == "http":
        raw.append((b"content-length", str(len(answer.body)).encode()))
    body = b"" if scope.get("method") == "HEAD" else answer.body
    with suppress(OSError):
        await send({"type": f"{kind}.response.start", "status": answer.status, "headers": raw})
        await send({"type": f"{kind}.response.body", "body": body})
