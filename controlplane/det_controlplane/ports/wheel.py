"""The distribution that a cluster runs from, as its machines install it."""

from typing import Protocol


class OwnWheel(Protocol):
    def name(self) -> str:
        """Return the name of the file, which holds the version."""
        ...

    def content(self) -> bytes: ...

    def constraints(self) -> bytes:
        """Return the versions of libraries that the distribution was tested with, as pip's `-c` takes them."""
        ...
