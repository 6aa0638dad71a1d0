"""Glob patterns for stored paths: `*` matches within a directory, `**` matches across directories."""

import functools
import re
from typing import Pattern, Sequence


def matches_any(path: str, globs: Sequence[str]) -> bool:
    return any(_compile_glob(glob).fullmatch(path) for glob in globs)


@functools.lru_cache(maxsize=256)
def _compile_glob(glob: str) -> Pattern[str]:
    pattern = glob + "**/*" if glob.endswith("/") else glob
    out = ""
    i = 0
    while i < len(pattern):
        if pattern.startswith("**/", i):
            out, i = out + "(?:.*/)?", i + 3
        elif pattern.startswith("**", i):
            out, i = out + ".*", i + 2
        elif pattern[i] == "*":
            out, i = out + "[^/]*", i + 1
        elif pattern[i] == "?":
            out, i = out + "[^/]", i + 1
        elif pattern[i] == "[" and "]" in pattern[i + 2 :]:
            end = pattern.index("]", i + 2)
            body = pattern[i + 1 : end].replace("\\", "\\\\")
            out, i = out + "[" + ("^" + body[1:] if body[0] == "!" else body) + "]", end + 1
        else:
            out, i = out + re.escape(pattern[i]), i + 1
    return re.compile(out)
