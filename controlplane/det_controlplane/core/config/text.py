"""Read a configuration document in YAML 1.2 or JSON. Errors contain the line of the problem."""

import json
import math
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from det_controlplane.core.problems import InvalidConfig, Problem, shown

_MAX_DEPTH = 100
# Aliases can make a short text expand to a huge document.
_MAX_VALUES = 200_000
_MAX_CHARACTERS = 1_000_000
_LARGEST = int(sys.float_info.max)  # columns of tables cannot store larger integers
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")  # characters that PostgreSQL cannot store


def load_yaml(text: str, *, what: str = "experiment configuration") -> dict[str, Any]:
    """Return the document as JSON values. Raises InvalidConfig with line and column for bad syntax."""
    if len(text) > _MAX_CHARACTERS:
        problem = Problem("", f"the document has more than {_MAX_CHARACTERS} characters")
        raise InvalidConfig([problem], what=what)
    value: Any = _parse_text(text, what)
    problems = json_problems(value)
    if not isinstance(value, dict):
        actual = "is empty" if value is None else f"is {shown(value)}"
        problems = [
            Problem("", f"the document must be a mapping of keys to values, but it {actual}")
        ]
    if problems:
        raise InvalidConfig(problems, what=what)
    document: dict[str, Any] = value
    return document


@dataclass(slots=True)
class _Budget:
    """The remaining values and characters of a document."""

    values: int = _MAX_VALUES
    characters: int = _MAX_CHARACTERS


def json_problems(value: Any) -> list[Problem]:
    """Return the parts that JSON in PostgreSQL cannot store: cycles, too many values, NaN, NUL and other types."""
    if _is_plain(value, _MAX_DEPTH, _Budget()):
        return []
    return list(_unplain("", value, _MAX_DEPTH, _Budget()))


def _is_plain(value: Any, depth: int, budget: _Budget) -> bool:
    """Return whether the value is storable. This is fast, because every configuration needs it, but finds no paths."""
    kind = type(value)
    if kind is str:
        budget.characters -= len(value)
        return budget.characters >= 0 and not _UNSTORABLE.search(value)
    if kind is dict or kind is list:
        budget.values -= len(value)
        if depth < 0 or budget.values < 0:
            return False
        if kind is list:
            return all(_is_plain(item, depth - 1, budget) for item in value)
        for key, item in value.items():
            if (
                type(key) is not str
                or not _is_plain(key, depth, budget)
                or not _is_plain(item, depth - 1, budget)
            ):
                return False
        return True
    if kind is int:
        return bool(-_LARGEST <= value <= _LARGEST)
    return kind is bool or value is None or (kind is float and math.isfinite(value))


def _unplain(path: str, value: Any, depth: int, budget: _Budget) -> Iterator[Problem]:
    if budget.values <= 0 or budget.characters < 0:
        return
    budget.values -= 1
    if budget.values == 0:
        yield Problem("", f"the document has more than {_MAX_VALUES} values")
        return
    budget.characters -= len(value) if isinstance(value, str) else sum(map(len, _keys(value)))
    if budget.characters < 0:
        yield Problem("", f"the document has more than {_MAX_CHARACTERS} characters")
        return
    if depth < 0:
        yield Problem(path, f"is nested more than {_MAX_DEPTH} levels deep")
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str) or _UNSTORABLE.search(key):
                yield Problem(path, f"has the key {key!r}; keys must be text that can be stored")
            else:
                yield from _unplain(f"{path}.{key}" if path else key, item, depth - 1, budget)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _unplain(f"{path}[{index}]", item, depth - 1, budget)
    elif isinstance(value, str):
        if _UNSTORABLE.search(value):
            yield Problem(path, "contains a NUL character or half of a surrogate pair")
    elif isinstance(value, float):
        if not math.isfinite(value):
            yield Problem(path, f"is {value}; only finite numbers can be stored")
    elif isinstance(value, int):
        if not -_LARGEST <= value <= _LARGEST:
            yield Problem(path, "is an integer beyond the range of a float (about 1.8e308)")
    elif value is not None:
        yield Problem(
            path, f"has a value of the kind {type(value).__name__}, which JSON does not know"
        )


def _keys(value: Any) -> Iterable[str]:
    return (key for key in value if isinstance(key, str)) if isinstance(value, dict) else ()


def _parse_text(text: str, what: str) -> Any:
    if text.lstrip().startswith("{"):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            pass  # flow-style YAML starts with "{" too, and its parser reports line and column
    import yaml

    from det_controlplane.core.config.yaml_values import values_of

    try:
        return values_of(text)
    except yaml.MarkedYAMLError as error:
        raise InvalidConfig([Problem("", _describe_yaml_error(error))], what=what) from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise InvalidConfig([Problem("", f"not valid YAML: {error}")], what=what) from error


def _describe_yaml_error(error: Any) -> str:
    mark = error.problem_mark or error.context_mark
    where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    description = " ".join(part for part in (error.context, error.problem) if part)
    return f"not valid YAML: {where}{description}"
