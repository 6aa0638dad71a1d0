"""Limits of what one caller or one address may use of a server: connections, open streams and threads."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

from det_controlplane.api.errors import TooMany
from det_controlplane.api.http import Request, bearer_token
from det_controlplane.core.config.cluster import ClusterConfig

_ADDRESS, _TOKEN = "address ", "token "

_MOST_KNOWN_TOKENS = 50_000
_UNKNOWN_TOKEN = "a token that was not seen yet"


class OpenConnections:
    """Counts open connections by the address of their other end. Lives on one event loop.

    Those of this machine are not counted: behind a proxy here they are everybody's."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: Counter[str] = Counter()
        self._held: dict[Any, str] = {}

    def take(self, connection: Any, peer: Any) -> int:
        """Count a connection with its other end; return how many too many its address has with it."""
        address = _address_of(peer)
        if not self._most or not address or ip_address(address).is_loopback:
            return 0
        self._open[address] += 1
        self._held[connection] = address
        return max(0, self._open[address] - self._most)

    def release(self, connection: Any) -> None:
        """Forget a connection that has ended, if it was counted."""
        address = self._held.pop(connection, None)
        if address is not None:
            self._open -= Counter({address: 1})


def _address_of(peer: Any) -> str:
    """Return the address of the other end; empty for a connection that has none."""
    return str(peer[0]).partition("%")[0] if isinstance(peer, tuple) else ""


def of_address(address: str) -> str:
    """Return the caller that strangers of an address are, together."""
    return f"{_ADDRESS}{address}"


def of_token_or_address(request: Request) -> str:
    """Return the caller of a request with an unchecked token, or its address if it has none."""
    token = bearer_token(request)
    return f"{_TOKEN}{hash(token)}" if token else of_address(request.client)


class OpenStreams:
    """Counts by users with their sessions and tasks, by agents, by addresses of strangers. Lives on one event loop."""

    def __init__(self, config: ClusterConfig) -> None:
        self._most = config.max_streams_per_user
        self._most_of_address = config.max_connections_per_address
        self._open: Counter[str] = Counter()

    def has_room(self, caller: str) -> bool:
        most = self._most_of_address if caller.startswith(_ADDRESS) else self._most
        return not most or self._open[caller] < most

    @contextmanager
    def held(self, caller: str) -> Iterator[None]:
        """Count one more while it is open. Raises TooMany."""
        if not self.has_room(caller):
            raise TooMany(_limit_message(caller, self._open[caller]))
        self._open[caller] += 1
        try:
            yield
        finally:
            self._open -= Counter({caller: 1})  # forgets callers that have none any more


def _limit_message(caller: str, count: int) -> str:
    if caller.startswith(_ADDRESS):
        return (
            f"{count} streams and connections to tasks, of users that are not known here, are open from {caller}:"
            " close some; an administrator may set another limit by security.max_connections_per_address"
        )
    caller = "this token" if caller.startswith(_TOKEN) else caller
    return (
        f"{count} streams and connections to tasks of {caller} are open: close some, such as followed logs; an"
        " administrator may set another limit by security.max_streams_per_user"
    )


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
        if len(self._known) >= _MOST_KNOWN_TOKENS:
            self._known.clear()
        self._known[hash(bearer_token(request))] = caller

    @asynccontextmanager
    async def of(self, request: Request) -> AsyncIterator[None]:
        token = bearer_token(request)
        caller = self._known.get(hash(token), _UNKNOWN_TOKEN) if token else ""
        turn = self._turns.setdefault(caller, _Turn(asyncio.Semaphore(self._most)))
        turn.callers += 1
        try:
            async with turn.free:
                yield
        finally:
            turn.callers -= 1
            if not turn.callers:
                del self._turns[caller]
