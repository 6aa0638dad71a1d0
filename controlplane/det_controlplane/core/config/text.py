"""Reading a configuration document: YAML 1.2 or JSON, with the line of whatever is wrong in it."""

import json
import math
import re
from collections.abc import Iterator
from functools import cache
from typing import Any, ClassVar

from det_controlplane.core.problems import InvalidConfig, Problem

_MAX_DEPTH = 100
_MAX_VALUES = 200_000  # aliases can make a small text huge
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")  # PostgreSQL has no such characters


def load_yaml(text: str, *, what: str = "experiment configuration") -> dict[str, Any]:
    """The document as JSON values; raises InvalidConfig with line and column for bad syntax."""
    value: Any = _parsed(text, what)
    problems = list(json_problems(value))
    if not isinstance(value, dict):
        shown = "is empty" if value is None else f"is {kind_of(value)}"
        problems = [
            Problem("", f"the document must be a mapping of keys to values, but it {shown}")
        ]
    if problems:
        raise InvalidConfig(problems, what=what)
    loaded: dict[str, Any] = value
    return loaded


def json_problems(value: Any) -> Iterator[Problem]:
    """What JSON in PostgreSQL could not hold: cycles, excess, NaN, NUL, objects of other kinds."""
    budget = _MAX_VALUES
    stack: list[tuple[str, Any, int]] = [("", value, 0)]
    while stack:
        path, item, depth = stack.pop()
        budget -= 1
        if budget < 0:
            yield Problem("", f"has more than {_MAX_VALUES} values")
            return
        if depth > _MAX_DEPTH:
            yield Problem(path, f"is nested more than {_MAX_DEPTH} levels deep")
        elif isinstance(item, dict):
            yield from (
                Problem(path, f"has the key {k!r}; keys must be text")
                for k in item
                if not _is_text(k)
            )
            stack.extend(
                (f"{path}.{key}" if path else str(key), inner, depth + 1)
                for key, inner in item.items()
            )
        elif isinstance(item, list | tuple):
            stack.extend((f"{path}[{index}]", inner, depth + 1) for index, inner in enumerate(item))
        elif isinstance(item, str):
            if not _is_text(item):
                yield Problem(path, "contains a NUL character or half of a surrogate pair")
        elif isinstance(item, float):
            if not math.isfinite(item):
                yield Problem(path, f"is {item}; only finite numbers can be stored")
        elif item is not None and not isinstance(item, bool | int):
            yield Problem(
                path, f"has a value of the kind {type(item).__name__}, which JSON does not know"
            )


def kind_of(value: Any) -> str:
    """The kind of a JSON value in the words of a user."""
    kinds: dict[type, str] = {bool: "a boolean", int: "a number", float: "a number", str: "text"}
    kinds |= {list: "a list", tuple: "a list", dict: "an object"}
    return "null" if value is None else kinds.get(type(value), type(value).__name__)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and not _UNSTORABLE.search(value)


def _parsed(text: str, what: str) -> Any:
    if text.lstrip().startswith("{"):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            pass  # flow-style YAML also starts so, and its parser knows line and column
    import yaml

    try:
        return yaml.load(text, Loader=_loader())
    except yaml.MarkedYAMLError as error:
        raise InvalidConfig([Problem("", _located(error))], what=what) from error
    except yaml.YAMLError as error:
        raise InvalidConfig([Problem("", f"not valid YAML: {error}")], what=what) from error
    except (RecursionError, ValueError) as error:
        raise InvalidConfig([Problem("", f"not valid YAML: {error}")], what=what) from error


def _located(error: Any) -> str:
    mark = error.problem_mark or error.context_mark
    where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    told = " ".join(part for part in (error.context, error.problem) if part)
    return f"not valid YAML: {where}{told}"


@cache
def _loader() -> Any:
    """A safe loader that reads scalars as YAML 1.2 does: 'on' is text, 1e-3 is a number."""
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):  # type: ignore[misc]
        yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}

        def __init__(self, stream: str) -> None:
            super().__init__(stream)
            self.checked: set[int] = set()

        def flatten_mapping(self, node: Any) -> None:
            # Before merge keys are replaced by what they stand for, and only once for each node.
            if id(node) not in self.checked:
                self.checked.add(id(node))
                _refuse_duplicates(node)
            super().flatten_mapping(node)

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[str, Any]:
            loaded = super().construct_mapping(node, deep=deep)
            return {_key(key): value for key, value in loaded.items()}

    for kind, pattern, first in _SCALARS:
        Loader.add_implicit_resolver(f"tag:yaml.org,2002:{kind}", re.compile(pattern), list(first))
    Loader.add_constructor("tag:yaml.org,2002:int", lambda _, node: _whole(node.value))
    Loader.add_constructor("tag:yaml.org,2002:float", lambda _, node: _float(node.value))
    Loader.add_constructor("tag:yaml.org,2002:bool", lambda _, node: node.value[0] in "tT")
    return Loader


_SCALARS = (
    ("null", r"^(?:~|null|Null|NULL|)$", ("~", "n", "N", "")),
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("int", r"^[-+]?(?:0x[0-9a-fA-F]+|0o[0-7]+|[0-9][0-9_]*)$", "-+0123456789"),
    (
        "float",
        r"^[-+]?(?:(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|\.(?:inf|Inf|INF))$|^\.(?:nan|NaN|NAN)$",
        "-+.0123456789",
    ),
    ("merge", r"^<<$", "<"),
)


def _whole(text: str) -> int:
    sign = -1 if text.startswith("-") else 1
    digits = text.lstrip("+-").replace("_", "")
    bases = {"0x": 16, "0o": 8}
    base = bases.get(digits[:2])
    return sign * (int(digits[2:], base) if base else int(digits))


def _float(text: str) -> float:
    cleaned = text.replace("_", "").lower()
    return float(cleaned.replace(".inf", "inf").replace(".nan", "nan"))


def _key(key: Any) -> Any:
    # JSON has only text as keys; the usual client sends numbers as keys in this form too.
    return (
        key
        if isinstance(key, str)
        else json.dumps(key)
        if isinstance(key, int | float | None)
        else key
    )


def _refuse_duplicates(node: Any) -> None:
    import yaml

    seen: set[tuple[str, str]] = set()
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode) or key.tag == "tag:yaml.org,2002:merge":
            continue
        if (key.tag, key.value) in seen:
            problem = f"the key '{key.value}' appears twice in one mapping"
            raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
        seen.add((key.tag, key.value))
