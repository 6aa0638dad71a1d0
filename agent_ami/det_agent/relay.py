"""Traffic to tasks through a websocket to the relay. It is open while a task on this agent has proxied ports."""

import asyncio
import contextlib
import logging
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from det_controlplane.adapters.relay_streams import Link, Stream, StreamReset
from det_controlplane.core.relay_frames import (
    BEAT_S,
    MAX_DATA,
    MAX_FRAME,
    SILENCE_S,
    BadFrame,
    Cause,
    Heartbeat,
    Open,
)
from determined.common import certificates
from determined.common.connections import pauses, tls_context
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

LONGEST_PAUSE_S = 10.0
DIAL_S = 5.0
Address = tuple[str, int]
# Returns the addresses of a container's port, or none if the container has no such port.
Addresses = Callable[[str, int], Sequence[Address]]

_log = logging.getLogger(__name__)


class RelayConnection:
    """Keep a websocket to the relay open in a separate thread while `set_address` requests it."""

    def __init__(
        self,
        master_url: str,
        trust: Mapping[str, Any],
        token: Callable[[], str],
        addresses: Addresses,
    ) -> None:
        self._master_url, self._trust = master_url, trust
        self._token, self._addresses = token, addresses
        self._lock = threading.Lock()
        self._wanted = ""
        self._running: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self._thread: threading.Thread | None = None

    def set_address(self, address: str) -> None:
        """Connect to a relay: a URL, or a path of the control plane. An empty address disconnects."""
        with self._lock:
            if address == self._wanted:
                return
            self._wanted = address
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="relay", daemon=True)
                self._thread.start()
            elif self._running is not None:
                loop, changed = self._running
                loop.call_soon_threadsafe(changed.set)

    def stop(self) -> None:
        self.set_address("")
        thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        asyncio.run(self._keep_connected())

    async def _keep_connected(self) -> None:
        changed = asyncio.Event()
        with self._lock:
            self._running = asyncio.get_running_loop(), changed
        waits = _pauses()
        while (address := self._next_wanted(changed)) is not None:
            talking = asyncio.create_task(self._talk(address, waits))
            unwanted = asyncio.create_task(changed.wait())
            await asyncio.wait({talking, unwanted}, return_when=asyncio.FIRST_COMPLETED)
            if unwanted.done():
                waits = _pauses()
            for task in (talking, unwanted):
                task.cancel()
            await asyncio.gather(talking, unwanted, return_exceptions=True)

    def _next_wanted(self, changed: asyncio.Event) -> str | None:
        """Return the relay to connect to. None ends this thread, and the next `set_address` starts a new one."""
        with self._lock:
            changed.clear()
            if self._wanted:
                return self._wanted
            self._running = self._thread = None
            return None

    async def _talk(self, address: str, waits: Iterator[float]) -> None:
        """Connect and transfer traffic until the connection ends, then pause."""
        try:
            async with self._connected(address) as websocket:
                _log.info("connected to the relay for traffic to tasks")
                await Conversation(websocket, self._addresses).run()
        except (OSError, WebSocketException, BadFrame, EOFError) as e:
            _log.info("no connection to the relay, trying again: %s", e)
        await asyncio.sleep(next(waits))

    def _connected(self, address: str) -> connect:
        url = address if "://" in address else self._master_url + address
        is_control_plane = urlsplit(url)[:2] == urlsplit(self._master_url)[:2]
        trust = self._trust if is_control_plane else {}
        options: dict[str, Any] = {}
        if url.startswith("https://"):
            fingerprint = trust.get("fingerprint")
            verify = trust.get("verify", True) and fingerprint is None
            options["ssl"] = tls_context(trust.get("cert_file"), verify)
            options["server_hostname"] = trust.get("server_hostname")
            options["create_connection"] = _make_checking_class(fingerprint)
        return connect(
            "ws" + url.removeprefix("http"),
            additional_headers={"Authorization": f"Bearer {self._token()}"},
            user_agent_header=None,
            compression=None,
            max_size=MAX_FRAME,
            open_timeout=DIAL_S,
            close_timeout=1,
            ping_interval=None,  # both sides send heartbeats instead
            proxy=None,
            logger=_log,
            **options,
        )


def _pauses() -> Iterator[float]:
    return pauses(0.25, LONGEST_PAUSE_S)


def _make_checking_class(fingerprint: str | None) -> type[ClientConnection]:
    """Return a connection class that checks the server's certificate before it sends data."""

    class Checked(ClientConnection):
        async def handshake(self, *args: Any, **kw: Any) -> None:
            if fingerprint is not None:
                tls = self.transport.get_extra_info("ssl_object")
                if not isinstance(tls, ssl.SSLObject):
                    raise ssl.SSLError("the connection to the relay has no certificate")
                certificates.check(tls, fingerprint)
            await super().handshake(*args, **kw)

    return Checked


class Conversation:
    """Accept the streams that the relay opens, and connect each to its container."""

    def __init__(self, websocket: ClientConnection, addresses: Addresses) -> None:
        self._websocket, self._addresses = websocket, addresses
        self._link = Link(websocket.send, self._accept)
        self._carrying: set[asyncio.Task[None]] = set()
        self._working_addresses: dict[tuple[str, int], Sequence[Address]] = {}
        self._last_message_at = 0.0

    async def run(self) -> None:
        """Transfer traffic until the websocket ends. Raises WebSocketException and BadFrame."""
        self._last_message_at = asyncio.get_running_loop().time()
        beating = asyncio.create_task(self._beat())
        try:
            async for message in self._websocket:
                self._last_message_at = asyncio.get_running_loop().time()
                if isinstance(message, str):
                    raise BadFrame("a text message")
                self._link.receive(message)
        finally:
            beating.cancel()
            self._link.close("the connection to the relay ended")
            for task in self._carrying:
                task.cancel()
            await asyncio.gather(beating, *self._carrying, return_exceptions=True)

    async def _beat(self) -> None:
        while asyncio.get_running_loop().time() - self._last_message_at < SILENCE_S:
            await self._link.send(Heartbeat())
            await asyncio.sleep(BEAT_S)
        self._websocket.transport.abort()

    def _accept(self, stream: Stream, request: Open) -> None:
        task = asyncio.create_task(self._carry(stream, request))
        self._carrying.add(task)
        task.add_done_callback(self._carrying.discard)

    async def _carry(self, stream: Stream, request: Open) -> None:
        with contextlib.suppress(WebSocketException, StreamReset):
            port_key = (request.container, request.port)
            places = self._working_addresses.pop(port_key, ())
            if not places:
                places = await asyncio.to_thread(self._addresses, *port_key)
            if not places:
                message = f"no running container here has the proxied port {request.port}"
                await stream.reset(Cause.UNKNOWN, message)
                return
            try:
                reader, writer = await _connected_to(places)
            except OSError as e:
                message = f"nothing listens at port {request.port} of the task ({e.strerror or e})"
                await stream.reset(Cause.REFUSED, message)
                return
            # Successful addresses are reused until a failure, because the engine's answers are slow.
            self._working_addresses[port_key] = places
            try:
                await stream.opened()
                await _carry_both_ways(stream, reader, writer)
            finally:
                # Also needed if the relay's connection ends and cancels this task.
                writer.close()


async def _connected_to(
    places: Sequence[Address],
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to the first address that answers. Raises OSError."""
    failure: OSError | None = None
    for host, port in places:
        try:
            dialling = asyncio.open_connection(host, port, limit=2 * MAX_DATA)
            return await asyncio.wait_for(dialling, DIAL_S)
        except asyncio.TimeoutError:
            failure = failure or TimeoutError("it does not answer")
        except OSError as e:
            failure = failure or e
    raise failure or OSError("it has no address")


async def _carry_both_ways(
    stream: Stream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    inward = asyncio.create_task(_to_container(stream, writer))
    outward = asyncio.create_task(_from_container(stream, reader))
    # Detects a closed stream even if the container neither reads nor writes.
    over = asyncio.create_task(stream.over())
    try:
        await asyncio.wait({inward, outward, over}, return_when=asyncio.FIRST_EXCEPTION)
        if stream.why_reset is not None:
            # Deliver the data that arrived before the client closed the stream.
            await asyncio.wait({inward}, timeout=DIAL_S)
        broken = [e for t in (inward, outward) if t.done() and (e := t.exception()) is not None]
        for failure in broken:
            if isinstance(failure, OSError):
                message = f"the task's connection broke: {failure.strerror or failure}"
                await stream.reset(Cause.BROKEN, message)
        if any(not isinstance(e, StreamReset) or e.cause is Cause.BROKEN for e in broken):
            _abort(writer)
    finally:
        for task in (inward, outward, over):
            task.cancel()
        await asyncio.gather(inward, outward, over, return_exceptions=True)
        if inward.cancelled():
            # A container that does not read would keep the connection open for the unsent data.
            _abort(writer)


def _abort(writer: asyncio.StreamWriter) -> None:
    """Reset a connection, so that the container notices it even if it does not read."""
    with contextlib.suppress(OSError):
        at_once = struct.pack("ii", 1, 0)
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
    writer.transport.abort()


async def _to_container(stream: Stream, writer: asyncio.StreamWriter) -> None:
    while part := await stream.read():
        writer.write(part)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


async def _from_container(stream: Stream, reader: asyncio.StreamReader) -> None:
    while part := await reader.read(MAX_DATA):
        await stream.write(part)
    await stream.end()
