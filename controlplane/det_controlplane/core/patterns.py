"""Match the regular expressions of users with RE2, the library of Determined's log policies.

RE2 does not backtrack: its time is proportional to the length of a line for every pattern. The control plane and the
agent import this module. It imports RE2 with the first pattern, because most processes use no pattern.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, TypeVar

T = TypeVar("T")

LONGEST_LINE = 64 * 1024  # characters; the rest of a line is neither stored nor searched
MOST_LINES = 20_000  # per request
# RE2 instructions. A pattern of this size takes about a second for the longest line.
_LARGEST_PROGRAM = 4000
# Processor time for a task's lines in one request: for one pattern, and for all patterns together.
PATTERN_S, LOOK_S = 0.5, 2.0
# A literal character or a single-character class or anchor, with its repetition.
_PIECE = re.compile(
    r"(?:(?P<plain>[^][\\.*+?(){}|^$\0\ufdd0\ud800-\udfff])|\\(?P<escaped>[!-/:-@[-`{-~])"
    r"|\.|\^|\$|\\[bBdDsSwW]|\[\^?[^][\\^][^][\\]*\])(?P<often>[*+?]*)"
)
_MOST_TEXTS = 3


class InvalidPattern(ValueError):
    """The text is not a regular expression, or the expression is too large."""


class TooCostly(Exception):
    """A pattern used more than `PATTERN_S` of processor time."""


class Pattern:
    def __init__(self, regexp: Any, texts: Sequence[str]) -> None:
        self._regexp, self._texts = regexp, texts

    def found_in(self, line: str) -> bool:
        """Return whether the line, without its newline, contains a match."""
        text = line[:LONGEST_LINE].removesuffix("\n")
        # Most lines match no policy. This test costs a tenth of a search.
        if not all(part in text for part in self._texts):
            return False
        return self._regexp.search(text.encode("utf-8", "replace")) is not None


def matches(pattern: str, line: str) -> bool:
    """Return whether a line matches. An invalid pattern, which old experiments may contain, matches no line."""
    try:
        return compiled(pattern).found_in(line)
    except InvalidPattern:
        return False


class PatternSearch:
    """A search of the lines of one task for users' patterns, with limited processor time.

    After the time is used, the remaining patterns are not searched. `unsearched` counts them.
    `clock` returns processor seconds."""

    def __init__(self, clock: Callable[[], float], longest_s: float = LOOK_S) -> None:
        self._clock, self._longest_s, self.spent_s = clock, longest_s, 0.0
        self.unsearched = 0

    def first(self, lines: Iterable[T], is_match: Callable[[T], bool]) -> T | None:
        """Return the first line with a match. Raises TooCostly."""
        if self.spent_s > self._longest_s:
            self.unsearched += 1
            return None
        start = self._clock()
        try:
            for line in lines:
                if is_match(line):
                    return line
                used_s = self._clock() - start
                if used_s > PATTERN_S:
                    raise TooCostly
                if self.spent_s + used_s > self._longest_s:
                    self.unsearched += 1
                    return None
            return None
        finally:
            self.spent_s += self._clock() - start


def required_texts(pattern: str) -> list[str]:
    """Return texts that every matching line contains. The list is empty for patterns with groups or alternatives."""
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
    required = sorted(filter(None, [*texts, text]), key=len)
    return required[-_MOST_TEXTS:] if end == len(pattern) else []


@lru_cache(maxsize=256)
def compiled(pattern: str) -> Pattern:
    """Compile a pattern with a cache. Raises InvalidPattern."""
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
