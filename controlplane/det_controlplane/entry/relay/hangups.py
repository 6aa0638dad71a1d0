"""End requests of disconnected clients if their tasks do not read. A server that stopped reading is not notified of a
disconnect.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from det_controlplane.entry.relay.http import ClientGone

# Under this name the server's extensions have the client.
EXTENSION = "det.client"
LOOKS_EVERY_S = 1.0
# A slow task may read no data of a disconnected client for so long.
GRACE_S = 3.0


class Client(Protocol):
    """The client's end of a connection. It notices a disconnect also while the server does not read."""

    def is_gone(self) -> bool: ...

    def poke(self) -> None:
        """Send what does no harm: a client that is gone, though not all it sent is read, shows itself by it."""

    def drop(self) -> None:
        """Give the connection up."""


async def run_until_hangup(
    scope: Any, sent: Callable[[], int], work: Coroutine[Any, Any, None]
) -> None:
    """Handle a request; `sent` returns the bytes that its task has read. Raises ClientGone."""
    client: Client | None = scope.get("extensions", {}).get(EXTENSION)
    if client is None:
        return await work
    working = asyncio.ensure_future(work)
    watching = asyncio.create_task(_wait_until_left(client, sent))
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            client.drop()
            raise ClientGone
        await working
    finally:
        for task in (working, watching):
            task.cancel()
        await asyncio.gather(working, watching, return_exceptions=True)


async def _wait_until_left(client: Client, count_sent: Callable[[], int]) -> None:
    """Wait until the client has disconnected and the task has read no data for a while."""
    total, idle_s = count_sent(), 0.0
    while True:
        await asyncio.sleep(LOOKS_EVERY_S)
        now = count_sent()
        if now != total:
            total, idle_s = now, 0.0
            continue
        idle_s += LOOKS_EVERY_S
        if idle_s >= GRACE_S:
            if client.is_gone():
                return
            client.poke()
            idle_s = 0.0
