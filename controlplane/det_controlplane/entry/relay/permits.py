"""End what is open to a task when its user may not reach the task any more."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from det_controlplane.adapters.relay_streams import Stream
from det_controlplane.core.relay_frames import Cause
from det_controlplane.services.tasks.proxying import Carriers

CHECKED_EVERY_S = 3.0
# Each check reads the database: so many connections take longer to check than a few.
_BETWEEN_S = 0.005
_WHY = "the sign-in of this connection has ended"

log = logging.getLogger("det.relay")


@dataclass(frozen=True, slots=True)
class Permit:
    """What a connection was opened with; connections of one browser to one task have the same."""

    service: str
    carriers: Carriers
    session_id: int | None  # of the user who was signed in, where anybody was


Check = Callable[[Permit], Awaitable[bool]]


class Permits:
    """Looks every few seconds whether each open connection would still be opened."""

    def __init__(self, check: Check) -> None:
        self._check = check
        self._open: dict[Permit, set[Stream]] = {}
        self._checking: asyncio.Task[None] | None = None

    @contextmanager
    def held(self, permit: Permit, stream: Stream) -> Iterator[None]:
        """Watch over a connection while it is open."""
        self._open.setdefault(permit, set()).add(stream)
        if self._checking is None or self._checking.done():
            self._checking = asyncio.create_task(self._check_all())
        try:
            yield
        finally:
            streams = self._open[permit]
            streams.discard(stream)
            if not streams:
                del self._open[permit]

    async def _check_all(self) -> None:
        while self._open:
            await asyncio.sleep(CHECKED_EVERY_S)
            for permit in list(self._open):
                if not await self._is_good(permit):
                    for stream in list(self._open.get(permit, ())):
                        await stream.reset(Cause.CANCELLED, _WHY)
                await asyncio.sleep(_BETWEEN_S)

    async def _is_good(self, permit: Permit) -> bool:
        try:
            return await self._check(permit)
        except Exception as e:
            log.warning("whether a connection may stay could not be checked: %s", e)
            return True
