"""End connections to a task when their user may not reach it any more."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from det_controlplane.adapters.relay_streams import Stream
from det_controlplane.core.relay_frames import Cause
from det_controlplane.services.tasks.proxying import RequestTokens

CHECKED_EVERY_S = 3.0
# Each check reads the database: so many connections take longer to check than a few.
_BETWEEN_S = 0.005
CHECKED_AT_ONCE = 8
_WHY = "the sign-in of this connection has ended"

log = logging.getLogger("det.relay")


@dataclass(frozen=True, slots=True)
class Permit:
    """The sign-in that opened connections to one port. All these connections share the permit."""

    service: str
    opened_by: RequestTokens  # only the tokens; clients may forge the other headers
    session_id: int | None  # session of the signed-in user, if there is one


Check = Callable[[Permit], Awaitable[bool]]


class Permits:
    """Checks every few seconds whether each open connection would still be allowed."""

    def __init__(self, check: Check) -> None:
        self._check = check
        self._open: dict[Permit, set[Stream]] = {}
        self._checking: asyncio.Task[None] | None = None
        self._resetting: set[asyncio.Task[None]] = set()

    def tasks(self) -> set[str]:
        """Return the tasks to which connections are open; other threads may ask."""
        return {permit.service.partition(":")[0] for permit in list(self._open)}

    @contextmanager
    def held(self, permit: Permit, stream: Stream) -> Iterator[None]:
        """Watch over a connection while it is open."""
        self._open.setdefault(permit, set()).add(stream)
        if self._checking is None or self._checking.done():
            self._checking = asyncio.create_task(self._check_all())
        try:
            yield
        finally:
            streams = self._open.get(permit, set())
            streams.discard(stream)
            if not streams:
                self._open.pop(permit, None)

    async def _check_all(self) -> None:
        while self._open:
            await asyncio.sleep(CHECKED_EVERY_S)
            waiting = iter(list(self._open))
            await asyncio.gather(*(self._check_some(waiting) for _ in range(CHECKED_AT_ONCE)))

    async def _check_some(self, waiting: Iterator[Permit]) -> None:
        for permit in waiting:
            try:
                if not await self._check(permit):
                    self._end(permit)
            except Exception as e:
                log.warning("whether a connection may stay could not be checked: %s", e)
            await asyncio.sleep(_BETWEEN_S)

    def _end(self, permit: Permit) -> None:
        """Close connections and notify their agents. An agent that does not read delays no other agent."""
        for stream in self._open.pop(permit, set()):
            stream.abort(Cause.CANCELLED, _WHY)
            task = asyncio.create_task(_tell(stream))
            self._resetting.add(task)
            task.add_done_callback(self._resetting.discard)


async def _tell(stream: Stream) -> None:
    try:
        await stream.send_reset()
    except Exception as e:
        log.warning("an agent could not be told that a connection has ended: %s", e)
