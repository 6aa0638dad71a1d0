"""Every connection is checked, also while agents or the database do not answer."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from typing import Any

import pytest
from det_controlplane.adapters.relay_streams import Link, StreamReset
from det_controlplane.core.relay_frames import Open, Opened, decoded, encoded
from det_controlplane.entry.relay import permits
from det_controlplane.entry.relay.permits import Permit, Permits
from det_controlplane.services.tasks.proxying import RequestTokens

Send = Callable[[bytes], Coroutine[Any, Any, None]]


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(permits, "CHECKED_EVERY_S", 0.001)


async def takes(message: bytes) -> None:
    """Stand for an agent that works."""


async def is_gone(message: bytes) -> None:
    raise RuntimeError("the websocket is closed")


async def stalls(message: bytes) -> None:
    await asyncio.Event().wait()


async def stream_to(send: Send) -> Any:
    """Return an open stream to an agent that takes later messages like this."""

    async def opens_first(message: bytes) -> None:
        frame = decoded(message)
        if isinstance(frame, Open):
            link.receive(encoded(Opened(frame.stream)))
        else:
            await send(message)

    link = Link(opens_first)
    return await link.open("container", 8080)


def permit(name: str) -> Permit:
    return Permit(name, RequestTokens(bearer=name), 1)


@pytest.mark.parametrize("send", [is_gone, stalls])
def test_failed_or_stalled_agent_does_not_keep_other_connections_open(send: Send) -> None:
    async def refused(_: Permit) -> bool:
        return False

    async def run() -> None:
        checked_permits = Permits(refused)
        streams = [await stream_to(send), await stream_to(takes), await stream_to(takes)]
        with ExitStack() as stack:
            for stream, name in zip(streams, ("bad", "bad", "good"), strict=True):
                stack.enter_context(checked_permits.held(permit(name), stream))
            await asyncio.wait_for(asyncio.gather(*map(broken, streams)), 60)
        later = await stream_to(takes)
        with checked_permits.held(permit("later"), later):
            await asyncio.wait_for(broken(later), 60)

    asyncio.run(run())


def test_slow_check_does_not_delay_other_checks() -> None:
    async def checked_slowly(permit_to_check: Permit) -> bool:
        if permit_to_check.service == "slow":
            await asyncio.Event().wait()
        return False

    async def run() -> None:
        checked_permits = Permits(checked_slowly)
        slow, quick = await stream_to(takes), await stream_to(takes)
        with (
            checked_permits.held(permit("slow"), slow),
            checked_permits.held(permit("quick"), quick),
        ):
            await asyncio.wait_for(broken(quick), 60)
            assert slow.why_reset is None

    asyncio.run(run())


async def broken(stream: Any) -> None:
    with pytest.raises(StreamReset):
        await stream.read()
