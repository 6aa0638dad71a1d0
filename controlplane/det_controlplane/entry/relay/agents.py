"""The websockets of agents, by which this process reaches their containers. Held in memory: agents dial again."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from det_controlplane.adapters.relay_streams import Link, StreamReset
from det_controlplane.core.relay_frames import BEAT_S, SILENCE_S, BadFrame, Cause, Heartbeat
from det_controlplane.entry.relay.sockets import accept

# A request waits NOTICE_S for an agent to connect after its poll. The agent may be connected to an instance that is
# being replaced: the relay then asks it to connect again, and the request waits ARRIVAL_S.
NOTICE_S, ARRIVAL_S = 5.0, 10.0
_MISSED_EVERY_S = 10.0
# A server that stopped reading does not notice a client's disconnect. This limit ends such requests.
PATIENCE_S = 120.0

log = logging.getLogger("det.relay")


class Agents:
    """Finds the link to an agent."""

    def __init__(self, missed: Callable[[str], Awaitable[None]]) -> None:
        """Call `missed` with the id of an agent that is not connected, at most once in _MISSED_EVERY_S."""
        self._links: dict[str, Link] = {}
        self._arrived = asyncio.Condition()
        self._missed = missed
        self._missed_at: dict[str, float] = {}

    async def link(self, agent_id: str) -> Link:
        """Return the link to an agent, waiting a little for one that is about to connect. Raises StreamReset."""
        if not await self._arrives(agent_id, NOTICE_S):
            await self._report_missed(agent_id)
            await self._arrives(agent_id, ARRIVAL_S)
        link = self._links.get(agent_id)
        if link is None:
            raise StreamReset(Cause.BROKEN, f"agent {agent_id} is not connected to the relay (yet)")
        return link

    async def _arrives(self, agent_id: str, limit_s: float) -> bool:
        if agent_id not in self._links:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._arrival(agent_id), limit_s)
        return agent_id in self._links

    async def _arrival(self, agent_id: str) -> None:
        async with self._arrived:
            await self._arrived.wait_for(lambda: agent_id in self._links)

    async def _report_missed(self, agent_id: str) -> None:
        """Ask the agent to connect again, unless it was asked within the last _MISSED_EVERY_S."""
        now = time.monotonic()
        last = self._missed_at.get(agent_id)
        if last is not None and now - last < _MISSED_EVERY_S:
            return
        self._missed_at[agent_id] = now
        try:
            await self._missed(agent_id)
        except Exception as e:
            log.warning("agent %s could not be told to connect again: %s", agent_id, e)

    async def serve(self, agent_id: str, receive: Any, send: Any) -> None:
        """Hold the websocket of an agent that proved itself, until it ends."""
        await receive()
        await accept(send)
        link = Link(
            lambda message: send({"type": "websocket.send", "bytes": message}),
            patience_s=PATIENCE_S,
        )
        older = self._links.get(agent_id)
        self._links[agent_id] = link
        self._missed_at.pop(agent_id, None)
        async with self._arrived:
            self._arrived.notify_all()
        if older is not None:
            older.close(f"agent {agent_id} connected anew")
        log.info("agent %s is connected for traffic to its tasks", agent_id)
        listening = asyncio.create_task(_listen(link, receive))
        heartbeat = asyncio.create_task(_beat(link))
        try:
            await asyncio.wait({listening, heartbeat}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if self._links.get(agent_id) is link:
                del self._links[agent_id]
            link.close(f"agent {agent_id} is gone")
            for task in (listening, heartbeat):
                task.cancel()
            await asyncio.gather(listening, heartbeat, return_exceptions=True)
        with suppress(OSError):
            await send({"type": "websocket.close", "code": 1000})


async def _listen(link: Link, receive: Any) -> None:
    while (message := await _next(receive)) is not None:
        try:
            link.receive(message)
        except BadFrame as e:
            log.warning("an agent's websocket is closed: it sent %s", e)
            return


async def _next(receive: Any) -> bytes | None:
    """Return the next message; None when the agent is gone, silent for too long, or speaks another language."""
    try:
        message = await asyncio.wait_for(receive(), SILENCE_S)
    except asyncio.TimeoutError:
        return None
    content = message.get("bytes")
    return content if isinstance(content, bytes) else None


async def _beat(link: Link) -> None:
    with suppress(OSError):
        while True:
            await asyncio.sleep(BEAT_S)
            await link.send(Heartbeat())
