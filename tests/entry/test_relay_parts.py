"""The relay's buffer for an incomplete message of a task's websocket."""

import asyncio
from typing import Any

from det_controlplane.adapters.relay_streams import Link, Stream
from det_controlplane.entry.relay.sockets import SocketBridge
from websockets.frames import Frame as Part
from websockets.frames import Opcode


class Passed:
    """A bridge between a task that sends parts of messages, and a client that records them."""

    def __init__(self) -> None:
        self.messages: list[Any] = []

        async def to_agent(_: bytes) -> None:
            return

        async def receive() -> Any:
            return {}

        async def send(message: Any) -> None:
            self.messages.append(message)

        self.bridge = SocketBridge(Stream(Link(to_agent), 1), list, receive, send)


def test_empty_parts_of_a_message_are_not_buffered() -> None:
    checks = Passed()

    async def parts() -> None:
        await checks.bridge._part(Part(Opcode.TEXT, b"a", fin=False))
        for _ in range(1000):
            await checks.bridge._part(Part(Opcode.CONT, b"", fin=False))
        assert len(checks.bridge._parts) == 1
        await checks.bridge._part(Part(Opcode.CONT, b"b", fin=True))
        await checks.bridge._part(Part(Opcode.TEXT, b"", fin=True))

    asyncio.run(parts())
    assert [m["text"] for m in checks.messages] == ["ab", ""]
