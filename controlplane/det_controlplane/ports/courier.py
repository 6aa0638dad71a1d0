"""Posting messages to other systems."""

from collections.abc import Mapping
from typing import Protocol


class Unsent(Exception):
    """The target took no message; the text says why."""

    def __init__(self, reason: str, *, forever: bool = False) -> None:
        super().__init__(reason)
        self.forever = forever  # trying again would be in vain


class Courier(Protocol):
    def check(self, url: str) -> None:
        """Raise Unsent where nothing may be sent to the address."""

    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> None:
        """Return when the target has taken the message. Raises Unsent."""


class NoCourier:
    """Implements `Courier` where nothing leaves the process."""

    def check(self, url: str) -> None:
        """Allow every address."""

    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> None:
        raise Unsent("this process sends no messages")
