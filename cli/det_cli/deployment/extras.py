"""The libraries of clouds, which an installation has only where it asked for them."""

from collections.abc import Iterator
from contextlib import contextmanager

from det_cli.errors import CommandError


def missing(name: str | None, extra: str) -> CommandError:
    """Return what says that a library of an extra is not installed, and how to install it."""
    return CommandError(
        f"{name} is missing",
        f"pip install 'determined-serverless[{extra}]', or in a checkout pip install '.[{extra}]'",
    )


@contextmanager
def needed(extra: str) -> Iterator[None]:
    """Say which extra has the libraries that are imported here."""
    try:
        yield
    except ModuleNotFoundError as e:
        raise missing(e.name, extra) from e
