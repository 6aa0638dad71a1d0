"""Regular expressions of users, in the dialect of RE2, which Determined's log policies have.

RE2 never goes back: a line takes time in proportion to its length, whatever the pattern. Control plane and agent
both import this. RE2 itself is imported at the first pattern, as most processes never see one.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, TypeVar

T = TypeVar("T")

LONGEST_LINE = 64 * 1024  # characters; what is behind them is neither stored nor searched
MOST_LINES = 20_000  # of a request
# Instructions of RE2's. With this many a line of the greatest length still takes about a second.
_LARGEST_PROGRAM = 4000
# Processor time for the lines of a task in a request: of a pattern, and of all patterns together.
PATTERN_S, LOOK_S = 0.5, 2.0
# A character that stands for itself, or something else of its length, and how often.
_PIECE = re.compile(
    r"(?:(?P<plain>[^][\\.*+?(){}|^$\0\ufdd0\ud800-\udfff])|\\(?P<escaped>[!-/:-@[-`{-~])"
    r"|\.|\^|\$|\\[bBdDsSwW]|\[\^?[^][\\^][^][\\]*\])(?P<often>[*+?]*)"
)
_MOST_TEXTS = 3


class InvalidPattern(ValueError):
    """A text that is no regular expression, or one that is too large."""


class TooCostly(Exception):
    """A pattern that took more than its share of a look."""


class Pattern:
    def __init__(self, regexp: Any, texts: Sequence[str]) -> None:
        self._regexp, self._texts = regexp, texts

    def found_in(self, line: str) -> bool:
        """Return whether a line, without its end, has a match anywhere."""
        text = line[:LONGEST_LINE].removesuffix("\n")
        # Most lines of most tasks match no policy, and this costs a tenth of a search.
        if not all(part in text for part in self._texts):
            return False
        return self._regexp.search(text.encode("utf-8", "replace")) is not None


def matches(pattern: str, line: str) -> bool:
    """Return whether a line matches; what is no pattern, as older experiments may have, matches nothing."""
    try:
        return compiled(pattern).found_in(line)
    except InvalidPattern:
        return False


class PatternSearch:
    """A search of the lines of one task for patterns of users, which takes so long and no longer.

    Patterns that a search has no time for, after others, find nothing; they are counted as `unsearched`.
    `clock` counts the seconds of a processor."""

    def __init__(self, clock: Callable[[], float], longest_s: float = LOOK_S) -> None:
        self._clock, self._longest_s, self.spent_s = clock, longest_s, 0.0
        self.unsearched = 0

    def first(self, lines: Iterable[T], is_match: Callable[[T], bool]) -> T | None:
        """Return the first line with a match. Raises TooCostly."""
        if self.spent_s > self._longest_s:
            self.unsearched += 1
            return None
        began = self._clock()
        try:
            for line in lines:
                if is_match(line):
                    return line
                taken_s = self._clock() - began
                if taken_s > PATTERN_S:
                    raise TooCostly
                if self.spent_s + taken_s > self._longest_s:
                    self.unsearched += 1
                    return None
            return None
        finally:
            self.spent_s += self._clock() - began


def required_texts(pattern: str) -> list[str]:
    """Return texts that each line with a match has; none for a pattern with groups, alternatives or counts."""
    texts, text, end = [], "", 0
    for piece in _PIECE.finditer(pattern):
        if piece.start() != end:
            return []
        end = piece.end()
        char = piece["plain"] or piece["escaped"]
        if char and piece["often"][:1] in ("", "+"):
            text += char
            if not piece["often"]:
                continue
        texts.append(text)
        text = ""
    found = sorted(filter(None, [*texts, text]), key=len)
    return found[-_MOST_TEXTS:] if end == len(pattern) else []


@lru_cache(maxsize=256)
def compiled(pattern: str) -> Pattern:
    """Compile a pattern, and keep the last ones. Raises InvalidPattern."""
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
    return Pattern(regexp, required_texts(pattern))
