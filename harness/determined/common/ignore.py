"""Patterns in the syntax of .gitignore: the last rule that matches a path decides."""

import re
from typing import Iterable, List, NamedTuple, Optional, Pattern

# Byte-code, editors, version control and Terraform's state never belong to a model (facts §1.2).
ALWAYS = (
    "__pycache__/",
    "*.py[co]",
    "*$py.class",
    ".terraform/",
    "*.tfstate",
    "*.tfstate.*",
    ".git/",
    ".vscode/",
    ".idea/",
    ".mypy_cache/",
    "/shared_fs",
)


class _Rule(NamedTuple):
    regex: Pattern[str]
    dirs_only: bool
    ignores: bool


class Ignore:
    """Rules in order. Paths are relative to the root, with `/`; a parent that is ignored hides all inside."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._rules = [rule for rule in map(_parse, lines) if rule is not None]

    def matches(self, path: str, *, is_dir: bool) -> bool:
        for rule in reversed(self._rules):
            if (is_dir or not rule.dirs_only) and rule.regex.match(path):
                return rule.ignores
        return False


def _parse(line: str) -> Optional[_Rule]:
    pattern = _without_trailing_blanks(line.rstrip("\r\n"))
    if not pattern or pattern.startswith("#"):
        return None
    ignores = not pattern.startswith("!")
    if not ignores:
        pattern = pattern[1:]
    dirs_only = pattern.endswith("/")
    if dirs_only:
        pattern = pattern[:-1]
    if not pattern:
        return None
    anchored = "/" in pattern
    body = (
        _anchored_regex(pattern[1:] if pattern.startswith("/") else pattern)
        if anchored
        else _path_regex(pattern)
    )
    if body is None:
        return None
    return _Rule(re.compile(body if anchored else f"(?:.*/)?{body}", re.S), dirs_only, ignores)


def _without_trailing_blanks(line: str) -> str:
    """A blank at the end counts only when a backslash precedes it."""
    stripped = line.rstrip(" ")
    escapes = len(stripped) - len(stripped.rstrip("\\"))
    return stripped + " " if escapes % 2 and len(stripped) < len(line) else stripped


def _anchored_regex(pattern: str) -> Optional[str]:
    found = _AFTER_LITERAL.match(pattern)
    if found is None:
        return _path_regex(pattern)
    # git compares what precedes the first wildcard by itself, so it takes these asterisks for a `**` between slashes.
    rest = pattern[found.end() :]
    body = r".*\Z" if _ONLY_WILDCARDS.fullmatch(rest) else _path_regex("**" + rest)
    return None if body is None else re.escape(found[1]) + body


def _path_regex(pattern: str) -> Optional[str]:
    parts = pattern.split("/")
    out: List[str] = []
    for i, part in enumerate(parts):
        last = i == len(parts) - 1
        if len(part) > 1 and not part.strip("*"):
            out.append(".+" if last else "(?:.*/)?")
            continue
        glob = _segment_regex(part)
        if glob is None:
            return None
        out.append(glob if last else glob + "/")
    return "".join(out) + r"\Z"


def _segment_regex(part: str) -> Optional[str]:
    out, i = [], 0
    while i < len(part):
        char = part[i]
        if char == "*":
            out.append("[^/]*")
            i += len(part[i:]) - len(part[i:].lstrip("*"))
            continue
        if char == "[":
            group, i = _bracket_regex(part, i)
            if group is None:
                return None
            out.append(group)
            continue
        if char == "\\":
            i += 1
            if i == len(part):
                return None
            char = part[i]
            out.append(re.escape(char))
        else:
            out.append("[^/]" if char == "?" else re.escape(char))
        i += 1
    return "".join(out)


def _bracket_regex(part: str, start: int) -> "tuple[Optional[str], int]":
    """`[a-c]`, `[!x]`, `[]x]`; a bracket that is never closed matches nothing, as in git."""
    i = start + 1
    negated = part[i : i + 1] in ("!", "^")
    i += negated
    items: List[str] = []
    while i < len(part) and (part[i] != "]" or not items):
        posix = _POSIX.match(part, i)
        if posix:
            items.append(_POSIX_CLASSES[posix.group(1)])
            i = posix.end()
            continue
        low, i = _bracket_char(part, i)
        if part[i : i + 1] == "-" and part[i + 1 : i + 2] not in ("", "]"):
            high, i = _bracket_char(part, i + 1)
            if low <= high:
                items.append(f"{re.escape(low)}-{re.escape(high)}")
            else:
                items.append("")
            continue
        items.append(re.escape(low))
    if i >= len(part):
        return None, i
    inside = "".join(items)
    if negated:
        return f"[^/{inside}]", i + 1
    return (f"(?!/)[{inside}]" if inside else "(?!)"), i + 1


def _bracket_char(part: str, i: int) -> "tuple[str, int]":
    if part[i] == "\\" and i + 1 < len(part):
        i += 1
    return part[i], i + 1


_AFTER_LITERAL = re.compile(r"([^*?\[\\]*[^*?\[\\/])\*\*+(?=/|\Z)")
_ONLY_WILDCARDS = re.compile(r"(/\*+)*")
_POSIX_CLASSES = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "digit": "0-9",
    "lower": "a-z",
    "upper": "A-Z",
    "space": r"\s",
    "xdigit": "0-9a-fA-F",
    "punct": r"!-/:-@\[-`{-~",
}
_POSIX = re.compile(r"\[:({}):\]".format("|".join(_POSIX_CLASSES)))
