"""Bound the connections of one address to a server: a machine alone does not take all that there are."""

from collections import Counter
from ipaddress import ip_address
from typing import Any


class Addresses:
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
