"""The cloud libraries, which are optional dependencies."""

from collections.abc import Iterator
from contextlib import contextmanager

from det_cli.errors import CommandError


def missing(name: str | None, extra: str) -> CommandError:
    """Return the error for a missing library, with the command that installs its extra."""
    return CommandError(
        f"{name} is missing",
        f"run `pip install 'determined-serverless[{extra}]'`, or `pip install '.[{extra}]'` in a checkout",
    )


@contextmanager
def needed(extra: str) -> Iterator[None]:
    """Raise CommandError with the name of the extra if an import in the context fails."""
    try:
        yield
    except ModuleNotFoundError as e:
        raise missing(e.name, extra) from e
