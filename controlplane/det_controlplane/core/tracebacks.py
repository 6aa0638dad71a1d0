"""Find the exception or error that ended a program in its output."""

import re
from collections.abc import Iterable

_BEGIN = "Traceback (most recent call last):"
_LONGEST = 300
ERROR = "ERROR: "  # the prefix of a line that was logged as an error
_NOT_STARTED = re.compile(
    r"\S*python[\d.]*: (can't open file|No module named|Error while finding module)"
    r"|\S*sh: .*(not found|No such file|cannot open|Permission denied)"
)


def last_exception(lines: Iterable[str]) -> str:
    """Return the line that names the exception of the last Python traceback, shortened, or ''."""
    exception, inside = "", False
    for line in lines:
        if line.rstrip().endswith(_BEGIN):
            inside = True
        elif inside and line.strip() and not line[0].isspace() and not line.startswith(ERROR):
            exception, inside = line.strip(), False
    return _shorten_line(exception)


def last_error(lines: Iterable[str]) -> str:
    """Return the last line that was logged as an error, or with which Python or a shell rejected a program."""
    error = ""
    for line in map(str.strip, lines):
        if line.startswith(ERROR) or _NOT_STARTED.match(line):
            error = line.removeprefix(ERROR)
    return _shorten_line(error)


def _shorten_line(line: str) -> str:
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
