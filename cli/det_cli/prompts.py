"""Questions to the person at the terminal."""

import sys

from det_cli.errors import CommandError, UsageError


def password(question: str) -> str:
    import getpass

    if not sys.stdin.isatty():
        raise UsageError(
            "there is no terminal to ask for a password", "set DET_PASS, or run this in a terminal"
        )
    try:
        return getpass.getpass(question)
    except EOFError as e:
        print(file=sys.stderr)
        raise CommandError("no password given") from e


def confirm(question: str, *, yes: bool) -> None:
    """Go on only when the person agrees."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("this asks for confirmation, and there is no terminal", "give --yes")
    print(f"{question} [y/N]: ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CommandError("stopped: nothing was changed")
