"""Streams over one websocket, for both of its ends. The relay opens streams and the agent accepts them."""

import asyncio
import itertools
from collections import deque
from collections.abc import Awaitable, Callable

from det_controlplane.core.relay_frames import (
    BadFrame,
    Cause,
    Credit,
    Data,
    End,
    Frame,
    Open,
    Opened,
    Receiving,
    Reset,
    Sending,
    decoded,
    encoded,
)

SendMessage = Callable[[bytes], Awaitable[None]]
MAX_STREAMS = 4096


def _do_nothing() -> None:
    return


class StreamReset(Exception):
    """The stream was rejected or aborted."""

    def __init__(self, cause: Cause, message: str) -> None:
        super().__init__(message)
        self.cause = cause


class Stream:
    """Two directions of bytes, which end independently. One task may read and one may write."""

    def __init__(self, link: "Link", number: int) -> None:
        self.number = number
        self._link = link
        self._parts: deque[bytes] = deque()
        self._receiving, self._sending = Receiving(), Sending()
        self._readable, self._writable = asyncio.Event(), asyncio.Event()
        self._writable.set()
        self._over = asyncio.Event()
        self._ended_here = self._ended_there = False
        self._reset: StreamReset | None = None
        self.sent = 0  # bytes, including those that the other side has not read yet
        self.on_traffic: Callable[[], None] = _do_nothing

    @property
    def why_reset(self) -> StreamReset | None:
        return self._reset

    async def over(self) -> None:
        """Wait until both directions have ended. Raises StreamReset."""
        await self._over.wait()
        if self._reset is not None:
            raise self._reset

    async def read(self) -> bytes:
        """Return the next bytes, or b'' at the end. Raises StreamReset."""
        while not self._parts:
            if self._reset is not None:
                raise self._reset
            if self._ended_there:
                return b""
            self._readable.clear()
            await self._readable.wait()
        part = self._parts.popleft()
        credit = self._receiving.use(len(part))
        if credit and not self._ended_there and self._reset is None:
            await self._link.send(Credit(self.number, credit))
        return part

    async def write(self, content: bytes) -> None:
        """Send bytes at the pace of the other side. Raises StreamReset."""
        sent = 0
        while sent < len(content):
            if self._reset is not None:
                raise self._reset
            if self._ended_here:
                # The other side would close the whole connection, including other streams.
                raise StreamReset(Cause.BROKEN, "bytes behind the end")
            count = self._sending.take(len(content) - sent)
            if count:
                self.on_traffic()
                part = content if count == len(content) else content[sent : sent + count]
                await self._link.send(Data(self.number, part))
                sent += count
                self.sent += count
            else:
                await self._room()

    async def _room(self) -> None:
        """Wait until the other side has consumed data. Reset the stream if this takes too long."""
        self._writable.clear()
        patience_s = self._link.patience_s
        try:
            await asyncio.wait_for(self._writable.wait(), patience_s)
        except asyncio.TimeoutError:
            why = f"the other side read nothing for {patience_s} s"
            await self.reset(Cause.BROKEN, why)
            raise StreamReset(Cause.BROKEN, why) from None

    async def end(self) -> None:
        """End the sending direction. The stream can still be read."""
        if not self._ended_here and self._reset is None:
            self._ended_here = True
            await self._link.send(End(self.number))
            self._forget_if_over()

    async def reset(self, cause: Cause, message: str) -> None:
        """End both directions at once."""
        if self._reset is None and not (self._ended_here and self._ended_there):
            self.abort(cause, message)
            await self.send_reset()

    async def send_reset(self) -> None:
        """Send the reason of the reset to the other side."""
        if self._reset is not None:
            await self._link.send(Reset(self.number, self._reset.cause, str(self._reset)))

    async def opened(self) -> None:
        """Report to the relay that the connection to the container is open."""
        await self._link.send(Opened(self.number))

    def abort(self, cause: Cause, message: str) -> None:
        self._reset = self._reset or StreamReset(cause, message)
        self._link.forget(self)
        self._over.set()
        self._readable.set()
        self._writable.set()

    def received(self, frame: Data | End | Credit | Reset) -> None:
        if isinstance(frame, Reset):
            self.abort(frame.cause, frame.message)
        elif isinstance(frame, Credit):
            self._sending.allow(frame.count)
            self._writable.set()
        elif self._ended_there:
            raise BadFrame("bytes of a stream behind its end")
        elif isinstance(frame, Data):
            self._receiving.came(len(frame.content))
            if frame.content:
                self._parts.append(frame.content)
                self.on_traffic()
            self._readable.set()
        else:
            self._ended_there = True
            self._readable.set()
            self._forget_if_over()

    def _forget_if_over(self) -> None:
        if self._ended_here and self._ended_there:
            self._over.set()
            self._link.forget(self)


class Link:
    """A websocket with many streams. Its owner passes messages to `receive` and calls `close` at the end."""

    def __init__(
        self,
        send: SendMessage,
        accept: Callable[[Stream, Open], None] | None = None,
        patience_s: float | None = None,
    ) -> None:
        """Create a link. `patience_s` limits the time in which the other side must connect or consume data."""
        self.patience_s = patience_s
        self._send = send
        self._accept = accept
        self._numbers = itertools.cycle(range(1, 1 << 32))
        self._streams: dict[int, Stream] = {}
        self._opening: dict[int, asyncio.Future[None]] = {}
        self._closed: StreamReset | None = None

    def __len__(self) -> int:
        return len(self._streams)

    async def open(self, container: str, port: int) -> Stream:
        """Return a stream after the agent has connected to the port. Raises StreamReset."""
        if self._closed is not None:
            raise self._closed
        if len(self._streams) >= MAX_STREAMS:
            raise StreamReset(Cause.BROKEN, f"{MAX_STREAMS} streams of this agent are open already")
        number = next(n for n in self._numbers if n not in self._streams)
        stream = self._streams[number] = Stream(self, number)
        answer = self._opening[number] = asyncio.get_running_loop().create_future()
        try:
            await self.send(Open(number, container, port))
            await asyncio.wait_for(answer, self.patience_s)
        except asyncio.TimeoutError:
            why = f"it did not connect within {self.patience_s} s"
            await stream.reset(Cause.CANCELLED, why)
            raise StreamReset(Cause.BROKEN, why) from None
        except asyncio.CancelledError:
            await stream.reset(Cause.CANCELLED, "")
            raise
        finally:
            self._opening.pop(number, None)
        return stream

    async def send(self, frame: Frame) -> None:
        if self._closed is None:
            await self._send(encoded(frame))

    def receive(self, message: bytes) -> None:
        """Handle a message of the other side. The caller must close the websocket on BadFrame."""
        frame = decoded(message)
        if isinstance(frame, Open):
            self._opened_there(frame)
        elif isinstance(frame, Opened):
            self._complete_opening(frame.stream, None)
        elif isinstance(frame, Data | End | Credit | Reset):
            stream = self._streams.get(frame.stream)
            # Frames of a stream that this side has aborted may still arrive. They are ignored.
            if stream is not None:
                stream.received(frame)

    def close(self, message: str) -> None:
        """Abort all streams after the websocket was closed."""
        self._closed = StreamReset(Cause.BROKEN, message)
        for stream in list(self._streams.values()):
            stream.abort(Cause.BROKEN, message)

    def forget(self, stream: Stream) -> None:
        self._streams.pop(stream.number, None)
        reset = stream.why_reset
        self._complete_opening(
            stream.number, reset or StreamReset(Cause.BROKEN, "it ended at once")
        )

    def _opened_there(self, frame: Open) -> None:
        if self._accept is None or frame.stream in self._streams:
            raise BadFrame("an open that is not expected")
        stream = self._streams[frame.stream] = Stream(self, frame.stream)
        self._accept(stream, frame)

    def _complete_opening(self, number: int, error: StreamReset | None) -> None:
        answer = self._opening.pop(number, None)
        if answer is None or answer.done():
            return
        if error is None:
            answer.set_result(None)
        else:
            answer.set_exception(error)
