"""Share the threads that answer requests, so that one caller never takes all of them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from det_controlplane.api.http import Request, bearer_token

_MOST_KNOWN = 50_000
_UNKNOWN = "a token that was not seen yet"


@dataclass(slots=True)
class _Turn:
    free: asyncio.Semaphore
    callers: int = 0  # that have it, or wait for it


class CallerLimits:
    """Delay requests of a caller while many of its requests are handled.

    The first answer to a token shows its caller. Until then, unknown tokens and requests without a token share one
    limit."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._turns: dict[str, _Turn] = {}
        self._known: dict[int, str] = {}

    def know(self, request: Request, caller: str) -> None:
        """Remember the caller of a request's token."""
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[hash(bearer_token(request))] = caller

    @asynccontextmanager
    async def of(self, request: Request) -> AsyncIterator[None]:
        token = bearer_token(request)
        caller = self._known.get(hash(token), _UNKNOWN) if token else ""
        turn = self._turns.setdefault(caller, _Turn(asyncio.Semaphore(self._most)))
        turn.callers += 1
        try:
            async with turn.free:
                yield
        finally:
            turn.callers -= 1
            if not turn.callers:
                del self._turns[caller]
