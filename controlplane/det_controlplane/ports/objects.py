"""Large objects outside the database, such as experiment contexts."""

from typing import Protocol


class ObjectStore(Protocol):
    def put(self, key: str, content: bytes) -> None: ...

    def get(self, key: str) -> bytes | None:
        """Return the object, or None if it does not exist."""
        ...

    def size(self, key: str) -> int | None: ...

    def delete(self, key: str) -> None: ...

    def upload_url(self, key: str, size: int, expires_s: int) -> str:
        """Return a URL for one PUT of exactly `size` bytes without further credentials.

        The URL may be a path. The caller appends it to the address of the API."""
        ...

    def download_url(self, key: str, expires_s: int) -> str:
        """Return a URL for a GET of the object without further credentials.

        The URL is empty if only the API can return objects."""
        ...
