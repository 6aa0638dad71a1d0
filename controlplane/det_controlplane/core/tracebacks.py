"""Find in the output of a program with which exception it ended."""

from collections.abc import Iterable

_BEGIN = "Traceback (most recent call last):"
_LONGEST = 300


def last_exception(lines: Iterable[str]) -> str:
    """Return the line that names the exception of the last Python traceback, shortened; empty without one."""
    found, inside = "", False
    for line in lines:
        if line.rstrip().endswith(_BEGIN):
            inside = True
        elif inside and line.strip() and not line[0].isspace():
            found, inside = line.strip(), False
    return found if len(found) <= _LONGEST else f"{found[: _LONGEST - 1]}…"
