"""Regular expressions of users, in the dialect of RE2, which Determined's log policies have.

RE2 never goes back: a line takes time in proportion to its length, whatever the pattern. Control plane and agent
both import this. RE2 itself is imported at the first pattern, as most processes never see one.
"""

from functools import lru_cache
from typing import Any

LONGEST_LINE = 64 * 1024  # characters; what is behind them is neither stored nor searched
# Instructions of RE2's. With this many a line of the greatest length still takes less than a second.
_LARGEST_PROGRAM = 4000


class InvalidPattern(ValueError):
    """A text that is no regular expression, or one that is too large."""


class Pattern:
    def __init__(self, regexp: Any) -> None:
        self._regexp = regexp

    def found_in(self, line: str) -> bool:
        """Return whether a line, without its end, has a match anywhere."""
        text = line[:LONGEST_LINE].removesuffix("\n").encode("utf-8", "replace")
        return self._regexp.search(text) is not None


def matches(pattern: str, line: str) -> bool:
    """Return whether a line matches; what is no pattern, as older experiments may have, matches nothing."""
    try:
        return compiled(pattern).found_in(line)
    except InvalidPattern:
        return False


@lru_cache(maxsize=256)
def compiled(pattern: str) -> Pattern:
    """Raises InvalidPattern."""
    import re2

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    try:
        regexp = re2.compile(pattern.encode("utf-8", "replace"), options)
    except re2.error as e:
        cause = e.args[0].decode(errors="replace") if e.args else "invalid"
        raise InvalidPattern(f"is not a regular expression of RE2: {cause}") from e
    if max(regexp.programsize, regexp.reverseprogramsize) > _LARGEST_PROGRAM:
        raise InvalidPattern("is too large: repeat fewer characters, or fewer times")
    return Pattern(regexp)
