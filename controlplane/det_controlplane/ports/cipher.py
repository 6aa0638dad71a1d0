"""Encrypt secrets that the database keeps for tasks and never shows."""

from typing import Protocol


class CannotOpen(Exception):
    """A sealed text cannot be opened: its key is not there, or the text is damaged."""


class Cipher(Protocol):
    def seal(self, content: bytes) -> str:
        """Encrypt under the cluster's key; the same content gives another text each time."""

    def open(self, sealed: str) -> bytes:
        """Decrypt; raises `CannotOpen`."""

    def fingerprint(self, content: bytes) -> str:
        """Return a short text, the same for the same content, from which the content cannot be told."""
