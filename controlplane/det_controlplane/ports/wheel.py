"""The wheel of the running version, which the cluster's machines install."""

from typing import Protocol


class OwnWheel(Protocol):
    def name(self) -> str:
        """Return the file name, which contains the version."""
        ...

    def content(self) -> bytes: ...

    def constraints(self) -> bytes:
        """Return the tested versions of libraries in the format of pip's `-c` option."""
        ...
