"""Encryption of secrets that the database stores for tasks. The API never shows them."""

from typing import Protocol


class CannotOpen(Exception):
    """A sealed text cannot be decrypted: its key is missing or the text is damaged."""


class Cipher(Protocol):
    def seal(self, content: bytes) -> str:
        """Encrypt with the cluster's key. Each call gives a different text."""

    def open(self, sealed: str) -> bytes:
        """Decrypt. Raises `CannotOpen`."""

    def fingerprint(self, content: bytes) -> str:
        """Return a short text that is equal for equal content and does not reveal the content."""
