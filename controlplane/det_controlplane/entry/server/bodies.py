"""Read bodies of requests: as large, for as long and as many at once as they may be."""

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any

from det_controlplane.api.http import MAX_BODY, STRANGERS_BODY

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

PART_S = 60.0  # limit for the next part of a body
FIRST_S = 60.0  # limit for a body of the size that is allowed without sign-in
LEAST_BYTES_S = 32 * 1024  # average rate of larger bodies
ROOM = 2 * MAX_BODY  # bytes that a process holds of all large bodies
SHARE = MAX_BODY  # bytes that it holds of one caller's bodies


class Disconnected(Exception):
    """The client went away."""


class TooSlow(Exception):
    """The client sends its body too slowly."""


class BodyMemoryFull(Exception):
    """The process holds as many bytes as it can, of all callers or of this caller."""


class BodyMemory:
    """Counts the bytes of large bodies in memory, of all callers and of each."""

    def __init__(self, size: int = ROOM, share: int = SHARE) -> None:
        self._free, self._share = size, share
        self._held: Counter[str] = Counter()

    def refuse_larger(self, size: int, sender: str) -> None:
        """Refuse a body without room for it. Slow senders reserve no room in advance. Raises BodyMemoryFull."""
        if size > self._free or size > self._share - self._held[sender]:
            raise BodyMemoryFull

    def take(self, size: int, sender: str) -> None:
        """Reserve bytes for a caller. Raises BodyMemoryFull."""
        self.refuse_larger(size, sender)
        self._free -= size
        self._held[sender] += size

    def give_back(self, size: int, sender: str) -> None:
        self._free += size
        self._held -= Counter({sender: size})  # remove callers without bytes


class Body:
    """A request's body, read as far as it may be."""

    def __init__(
        self,
        receive: Receive,
        room: BodyMemory,
        told_size: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._receive = receive
        self._room, self._taken = room, 0
        self._told_size = told_size
        self._parts: list[bytes] = []
        self._size, self._more = 0, True
        self.is_begun = False
        self.sender = ""  # once it is known
        self._clock, self._began = clock, clock()

    async def read(self, limit: int) -> bool:
        """Read on; False as soon as there is more than the limit.

        Raises Disconnected, TooSlow and, for large ones, BodyMemoryFull."""
        if self._told_size > limit:
            return False
        if limit > STRANGERS_BODY:
            self._room.refuse_larger(self._told_size - self._taken, self.sender)
            self._take(self._size)
        while self._more and self._size <= limit:
            self._parts.append(await self._next())
            if limit > STRANGERS_BODY:
                self._take(self._size)
        return self._size <= limit

    async def drain(self, limit: int) -> None:
        """Read and drop the rest of a body up to a limit, so that a client that sends first can read the refusal.

        The time limit starts again. Raises Disconnected."""
        self._parts.clear()
        self.close()
        self._size, self._began = 0, self._clock()
        with suppress(TooSlow):
            while self._more and self._size <= limit:
                await self._next()

    def content(self) -> bytes:
        return b"".join(self._parts)

    def close(self) -> None:
        """Release the room of a request that has ended or waits for other requests."""
        self._room.give_back(self._taken, self.sender)
        self._taken = 0

    def _take(self, size: int) -> None:
        if size > self._taken:
            self._room.take(size - self._taken, self.sender)
            self._taken = size

    async def _next(self) -> bytes:
        spent_s = self._clock() - self._began
        left_s = FIRST_S + max(0, self._size - STRANGERS_BODY) / LEAST_BYTES_S - spent_s
        if left_s <= 0:
            raise TooSlow
        self.is_begun = True
        try:
            message = await _receive_within(min(PART_S, left_s), self._receive)
        except asyncio.TimeoutError:
            raise TooSlow from None
        if message["type"] == "http.disconnect":
            raise Disconnected
        part: bytes = message.get("body", b"")
        self._size += len(part)
        self._more = message.get("more_body", False)
        return part


async def _receive_within(seconds: float, receive: Receive) -> MutableMapping[str, Any]:
    """Receive the next message. Raises asyncio.TimeoutError."""
    if sys.version_info >= (3, 11):
        # Before Python 3.12, `wait_for` creates a task even if the data has already arrived.
        async with asyncio.timeout(seconds):
            return await receive()
    else:
        return await asyncio.wait_for(receive(), seconds)
