"""Limit the requests that callers keep open: followed logs, downloads, updates, traffic to tasks, long polls."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from det_controlplane.api.errors import TooMany
from det_controlplane.api.http import Request, bearer_token
from det_controlplane.core.config.cluster import ClusterConfig

_ADDRESS, _TOKEN = "address ", "token "


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
