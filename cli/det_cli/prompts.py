"""Questions to the user at the terminal, and the rule for new passwords."""

import sys

from determined.common.sign_in import password_weakness

from det_cli.errors import CommandError, UsageError


def password(question: str, elsewhere: str) -> str:
    """Ask for a password at the terminal, or read the next line of standard input if there is no terminal.

    `elsewhere` is the hint of the error for missing input.
    """
    import getpass

    if not sys.stdin.isatty():
        return _next_line(question, elsewhere)
    try:
        return getpass.getpass(question)
    except EOFError as e:
        print(file=sys.stderr)
        raise CommandError("no password given") from e


def _next_line(question: str, elsewhere: str) -> str:
    """Print the question and read a line of standard input."""
    print(question, file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    if not line:
        raise UsageError("no terminal and no password on standard input", elsewhere)
    return line.rstrip("\r\n")


def confirm(question: str, *, yes: bool) -> None:
    """Raise CommandError unless the user agrees."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("this asks for confirmation, and there is no terminal", "give --yes")
    print(f"{question} [y/N]: ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CommandError("stopped: nothing was changed")


def check_new_password(password: str, hint: str = "") -> None:
    """Raise UsageError if the password is weak."""
    problem = password_weakness(password)
    if problem:
        raise UsageError(problem, hint)
