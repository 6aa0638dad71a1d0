"""Delivery of messages to other systems."""

from collections.abc import Mapping
from typing import Protocol


class Unsent(Exception):
    """The target did not accept a message. The text gives the reason."""

    def __init__(self, reason: str, *, forever: bool = False) -> None:
        super().__init__(reason)
        self.forever = forever  # another attempt would fail too


class Courier(Protocol):
    def check(self, url: str) -> None:
        """Raise Unsent if messages to this address are not allowed."""

    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> None:
        """Return after the target has accepted the message. Raises Unsent."""


class NoCourier:
    """A `Courier` for processes that send no messages."""

    def check(self, url: str) -> None:
        """Allow every address."""

    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> None:
        raise Unsent("this process sends no messages")
