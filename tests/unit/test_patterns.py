"""Regular expressions of users: one dialect, in linear time."""

import subprocess
import sys

import pytest
from det_controlplane.core.patterns import (
    LONGEST_LINE,
    LOOK_S,
    PATTERN_S,
    InvalidPattern,
    PatternSearch,
    TooCostly,
    compiled,
    matches,
    required_texts,
)
from hypothesis import given
from hypothesis import strategies as st

# Each takes Python's own engine longer than anybody waits.
HOSTILE = ("(a+)+$", "(a|aa)+$", "(.*a){25}$", "(a?){40}a{40}c", "(?:(?:a?){30}){30}c$")
_SEARCH = """
import sys
from det_controlplane.core.patterns import matches
assert not matches(sys.argv[1], "a" * int(sys.argv[2]) + "b")
"""


@pytest.mark.parametrize("pattern", HOSTILE)
def test_every_pattern_is_searched_in_limited_time(pattern: str) -> None:
    """The search runs in a separate process, because a test could not stop it otherwise."""
    command = [sys.executable, "-c", _SEARCH, pattern, str(LONGEST_LINE - 1)]
    subprocess.run(command, check=True, timeout=60)


@pytest.mark.parametrize(
    ("pattern", "line", "found"),
    [
        (r"\bfoo\b", "a foo b", True),
        (r"\bfoo\b", "food", False),
        ("^over$", "over\n", True),
        ("CUDA .* memory", "RuntimeError: CUDA out of memory.\n", True),
        ("é+", "caféé", True),
        ("x$", "\ud800x", True),
        ("b", "a" * LONGEST_LINE + "b", False),
    ],
)
def test_line_is_searched_without_its_line_break(pattern: str, line: str, found: bool) -> None:
    assert matches(pattern, line) is found


@pytest.mark.parametrize("pattern", ["(", "(?=a)", r"(a)\1", "a{1001}", "\\"])
def test_rejects_syntax_unknown_to_re2_with_the_cause(pattern: str) -> None:
    with pytest.raises(InvalidPattern, match=r"is not a regular expression of RE2: \w+"):
        compiled(pattern)
    assert not matches(pattern, "a")


def test_rejects_pattern_that_is_slow_for_each_character() -> None:
    with pytest.raises(InvalidPattern, match="too large"):
        compiled(".{1000}x")


class Lines:
    """Lines that take so long to search, by their own clock."""

    def __init__(self, line_s: float) -> None:
        self._line_s, self.now_s, self.searched = line_s, 0.0, 0

    def clock(self) -> float:
        return self.now_s

    def never(self, line: int) -> bool:
        self.now_s += self._line_s
        self.searched += 1
        return False


def test_each_pattern_has_a_time_limit_in_a_search() -> None:
    lines = Lines(PATTERN_S / 10)
    look = PatternSearch(lines.clock)
    assert look.first(range(9), lines.never) is None
    with pytest.raises(TooCostly):
        look.first(range(1000), lines.never)
    assert lines.searched < 9 + 15


def test_search_with_many_patterns_ends_within_its_time_limit() -> None:
    lines = Lines(PATTERN_S / 10)
    look = PatternSearch(lines.clock)
    for _ in range(100):
        assert look.first(range(9), lines.never) is None
    assert lines.now_s < LOOK_S + 2 * PATTERN_S
    assert look.unsearched > 90


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        ("CUDA.*memory", ["CUDA", "memory"]),
        ("^ab+c?d$", ["d", "ab"]),
        (r"loss=\d+\.5 [a-f]", [".5 ", "loss="]),
        (r"a\.b\[c", ["a.b[c"]),
        ("one|two", []),
        ("(?i)cuda", []),
        ("(cuda)?x", []),
        ("a{0}b", []),
        (r"\x41b", []),
        (r"\Qa.b\E", []),
        ("[[:alpha:]]x", []),
        ("[^]a[b]", []),
        ("[^]^a[b]c", []),
        (".*", []),
    ],
)
def test_plain_parts_of_a_pattern_are_required(pattern: str, texts: list[str]) -> None:
    assert sorted(required_texts(pattern)) == sorted(texts)


_PATTERNS = st.lists(
    st.sampled_from([*"abcx .*+?^$|(){}[]-,0", "\\", r"\d", r"\b", r"\.", r"\Q", "(?i)", "[ab]", "[^"]), max_size=8
).map("".join)  # fmt: skip


@given(_PATTERNS, st.text("abcxABC .*d0-", max_size=12))
def test_matching_lines_contain_a_required_text(pattern: str, line: str) -> None:
    assert not matches(pattern, line) or all(text in line for text in required_texts(pattern))
