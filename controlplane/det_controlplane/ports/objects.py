"""Large bytes outside the database: experiment contexts."""

from typing import Protocol


class ObjectStore(Protocol):
    def put(self, key: str, content: bytes) -> None: ...

    def get(self, key: str) -> bytes | None:
        """Return the object, or None when it does not exist."""
        ...

    def size(self, key: str) -> int | None: ...

    def delete(self, key: str) -> None: ...

    def upload_url(self, key: str, size: int, expires_s: int) -> str:
        """Return a URL that takes one PUT of exactly `size` bytes, without further credentials.

        A path alone is below the address at which the caller reaches the API, whatever that is."""
        ...

    def download_url(self, key: str, expires_s: int) -> str:
        """Return a URL that gives the object to a GET, without further credentials.

        It is empty where the API itself carries objects."""
        ...
