"""The network between an agent and the API, which a test can break as lost packets do."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

Direction = Literal["requests", "answers"]
DIRECTIONS: tuple[Direction, ...] = ("requests", "answers")
CHUNK = 65536


class Link:
    """A TCP proxy. While a direction is cut, its bytes wait and connections stay open.

    After the cut the bytes arrive late, because TCP retransmits lost packets. The API therefore gets requests even if
    their sender has stopped waiting.
    """

    def __init__(self, upstream_port: int) -> None:
        self.port = 0
        self._upstream_port = upstream_port
        self._loop = asyncio.new_event_loop()
        self._open: dict[Direction, asyncio.Event] = {}
        self._writers: set[asyncio.StreamWriter] = set()
        self._ready, self._end = threading.Event(), asyncio.Event()

    def cut(self, *directions: Direction) -> None:
        for direction in directions:
            self._loop.call_soon_threadsafe(self._open[direction].clear)

    def heal(self) -> None:
        for direction in DIRECTIONS:
            self._loop.call_soon_threadsafe(self._open[direction].set)

    @contextmanager
    def running(self, port: int = 0) -> Iterator["Link"]:
        thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._serve(port)))
        thread.start()
        try:
            assert self._ready.wait(30)
            yield self
        finally:
            self._loop.call_soon_threadsafe(self._end.set)
            thread.join()
            self._loop.close()

    async def _serve(self, port: int) -> None:
        for direction in DIRECTIONS:
            self._open[direction] = asyncio.Event()
            self._open[direction].set()
        server = await asyncio.start_server(self._carry, "127.0.0.1", port, backlog=256)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._end.wait()
        server.close()
        # Connections end by their sides: the callbacks of asyncio's streams complain about cancelled tasks.
        while carrying := asyncio.all_tasks() - {asyncio.current_task()}:
            for direction in DIRECTIONS:
                self._open[direction].set()
            for writer in self._writers:
                writer.transport.abort()
            await asyncio.wait(carrying, timeout=0.1)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection until both sides have ended it."""
        writers = {writer}
        self._writers.add(writer)
        try:
            await self._open["requests"].wait()
            upstream, to_upstream = await asyncio.open_connection("127.0.0.1", self._upstream_port)
            writers.add(to_upstream)
            self._writers.add(to_upstream)
            await asyncio.gather(
                self._pump(reader, to_upstream, "requests"),
                self._pump(upstream, writer, "answers"),
            )
        except OSError:
            pass  # one side has closed: the other side is closed below
        finally:
            self._writers -= writers
            for each in writers:
                each.close()

    async def _pump(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, direction: Direction
    ) -> None:
        while True:
            content = await source.read(CHUNK)
            await self._open[direction].wait()
            if not content:
                break
            target.write(content)
            await target.drain()
        with contextlib.suppress(OSError):
            target.write_eof()
