"""The hyperparameter space: the kinds of hyperparameters and their syntax."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from det_controlplane.core.problems import Problem, shown


@dataclass(frozen=True, slots=True)
class Const:
    val: Any


@dataclass(frozen=True, slots=True)
class Int:
    minval: int
    maxval: int  # inclusive
    count: int | None = None


@dataclass(frozen=True, slots=True)
class Double:
    minval: float
    maxval: float
    count: int | None = None


@dataclass(frozen=True, slots=True)
class Log:
    minval: float  # exponents
    maxval: float
    base: float
    count: int | None = None


@dataclass(frozen=True, slots=True)
class Categorical:
    vals: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Nested:
    members: Mapping[str, "HParam"]


HParam = Const | Int | Double | Log | Categorical | Nested
Space = Mapping[str, HParam]

_SAMPLED: dict[str, type[Const | Int | Double | Log | Categorical]] = {
    "const": Const,
    "int": Int,
    "double": Double,
    "log": Log,
    "categorical": Categorical,
}
_OPTIONAL = frozenset({"count"})
_EXACT_INT = 2**53  # many JSON readers round larger integers
_MAX_DEPTH, _LONGEST_PATH = 32, 1000


def parse(raw: Any, path: str = "hyperparameters") -> tuple[Space, list[Problem]]:
    """Parse the user's mapping. The order of the members is kept."""
    problems: list[Problem] = []
    if not isinstance(raw, Mapping):
        problem = Problem(path, f"must be an object of hyperparameters, not {shown(raw)}")
        return {}, [problem]
    return _members(raw, path, problems, depth=0), problems


def to_json(space: Space) -> dict[str, Any]:
    """Return the explicit form, in which each constant is an object with its type."""
    return {name: _json(param) for name, param in space.items()}


def walk(space: Space, path: str = "hyperparameters") -> Iterator[tuple[str, HParam]]:
    """Yield every hyperparameter that has a value, at any depth, with its path."""
    for name, param in space.items():
        if isinstance(param, Nested):
            yield from walk(param.members, f"{path}.{name}")
        else:
            yield f"{path}.{name}", param


def grid_problems(space: Space) -> list[Problem]:
    """Return the ranges without a number of points. A grid needs this number for each range."""
    return [
        Problem(where, "grid search needs 'count', the number of points to try in this range")
        for where, param in walk(space)
        for where in _find_uncounted(param, where)
    ]


def ranges_in_lists(space: Space) -> list[str]:
    """Return the paths of list items that look like ranges. They are constants, because lists are not sampled."""
    return [
        where
        for param_path, param in walk(space)
        if isinstance(param, Const)
        for where, _ in _ranges_in(param.val, param_path)
    ]


def _find_uncounted(param: HParam, path: str) -> Iterator[str]:
    if isinstance(param, Int | Double | Log) and param.count is None:
        yield path
    elif isinstance(param, Const):
        for where, item in _ranges_in(param.val, path):
            if item["type"] in ("int", "double", "log") and item.get("count") is None:
                yield where


def _ranges_in(value: Any, path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the objects in a list, at any depth, that are written like ranges."""
    if not isinstance(value, list | tuple):
        return
    for index, item in enumerate(value):
        where = f"{path}[{index}]"
        if isinstance(item, Mapping) and item.get("type") in list(_SAMPLED):
            yield where, item
        yield from _ranges_in(item, where)


def is_constant(space: Space) -> bool:
    """Return whether all trials get the same hyperparameters."""
    return all(
        isinstance(param, Const) or (isinstance(param, Categorical) and len(param.vals) == 1)
        for _, param in walk(space)
    )


def grid_size(space: Space) -> int:
    """Return the number of points of the grid. A range without a count is one point."""
    return math.prod(_points(param) for _, param in walk(space))


def _points(param: HParam) -> int:
    if isinstance(param, Categorical):
        return len(param.vals)
    if isinstance(param, Int):
        return min(param.count or 1, param.maxval - param.minval + 1)
    if isinstance(param, Double | Log):
        return param.count or 1
    return 1


def _json(param: HParam) -> Any:
    if isinstance(param, Nested):
        return to_json(param.members)
    if isinstance(param, Const):
        return {"type": "const", "val": param.val}
    if isinstance(param, Categorical):
        return {"type": "categorical", "vals": list(param.vals)}
    kind = next(name for name, cls in _SAMPLED.items() if type(param) is cls)
    return {"type": kind} | {f.name: getattr(param, f.name) for f in fields(param)}


def _members(
    raw: Mapping[Any, Any], path: str, problems: list[Problem], depth: int
) -> dict[str, HParam]:
    if depth > _MAX_DEPTH:
        problems.append(Problem(path, f"is nested more than {_MAX_DEPTH} levels deep"))
        return {}
    members: dict[str, HParam] = {}
    for key in raw:
        if not key or not isinstance(key, str):
            problems.append(Problem(path, f"has the name {key!r}; names are non-empty strings"))
        elif len(path) + len(key) > _LONGEST_PATH:
            message = f"has a name of more than {_LONGEST_PATH} characters, with what it lies in"
            problems.append(Problem(path[:80], message))
        else:
            members[key] = _param(raw[key], f"{path}.{key}", problems, depth)
    return members


def _param(raw: Any, path: str, problems: list[Problem], depth: int) -> HParam:
    if not isinstance(raw, Mapping):
        return Const(raw)
    if "type" not in raw:
        return Nested(_members(raw, path, problems, depth + 1))
    kind = raw["type"]
    if not isinstance(kind, str) or kind not in _SAMPLED:
        kinds = ", ".join(_SAMPLED)
        message = (
            f"must be one of {kinds}, not {shown(kind)}; an object with a 'type' key is a range"
        )
        problems.append(Problem(f"{path}.type", message))
        return Const(None)
    new_problems = [*_wrong_keys(raw, kind, path), *_wrong_values(raw, kind, path)]
    problems.extend(new_problems)
    return Const(None) if new_problems else _read(raw, kind)


def _wrong_keys(raw: Mapping[Any, Any], kind: str, path: str) -> Iterator[Problem]:
    names = [f.name for f in fields(_SAMPLED[kind])]
    for key in raw:
        if key != "type" and key not in names:
            allowed = ", ".join(names)
            yield Problem(f"{path}.{key}", f"is unknown; {kind} hyperparameters have {allowed}")
    for name in names:
        # A constant may be null. Any other field that is null is missing.
        absent = name not in raw if kind == "const" else raw.get(name) is None
        if absent and name not in _OPTIONAL:
            yield Problem(f"{path}.{name}", f"is required for {kind} hyperparameters")


def _wrong_values(raw: Mapping[Any, Any], kind: str, path: str) -> Iterator[Problem]:
    """Yield the problems of the present values."""
    if kind == "categorical":
        vals = raw.get("vals")
        if vals is not None and not (isinstance(vals, list | tuple) and vals):
            yield Problem(f"{path}.vals", "must be a list of at least one value")
    elif kind != "const":
        is_right, requirement = _NUMBERS[kind]
        numbers = [name for name in ("minval", "maxval", "base") if raw.get(name) is not None]
        wrong = [name for name in numbers if not is_right(raw[name])]
        for name in wrong:
            yield Problem(f"{path}.{name}", f"must be {requirement}, not {shown(raw[name])}")
        count = raw.get("count")
        if count is not None and not (_is_whole(count) and count >= 1):
            yield Problem(
                f"{path}.count", f"must be a whole number of at least 1, not {shown(count)}"
            )
        if not wrong:
            values = {name: raw[name] for name in numbers}
            yield from _wrong_range(values.get("minval"), values.get("maxval"), kind, path)
            if kind == "log" and "base" in values:
                yield from _wrong_base(values, path)


def _wrong_range(low: Any, high: Any, kind: str, path: str) -> Iterator[Problem]:
    if low is None or high is None:
        return
    if low >= high:
        yield Problem(path, f"minval ({low}) must be less than maxval ({high})")
    elif kind == "double" and math.isinf(float(high) - float(low)):
        yield Problem(path, f"the range from {low} to {high} is too wide for a number")


def _wrong_base(limits: Mapping[str, Any], path: str) -> Iterator[Problem]:
    base = limits["base"]
    exponents = [limits[name] for name in ("minval", "maxval") if name in limits]
    if base <= 0:
        yield Problem(f"{path}.base", f"must be greater than 0, not {base}")
    elif not all(_is_power(base, exponent) for exponent in exponents):
        low, high = limits.get("minval", "…"), limits.get("maxval", "…")
        message = "minval and maxval are exponents of base, and the values overflow"
        yield Problem(path, f"{message}: {base}^{low} to {base}^{high}")


def _read(raw: Mapping[Any, Any], kind: str) -> HParam:
    if kind == "const":
        return Const(raw["val"])
    if kind == "categorical":
        return Categorical(tuple(raw["vals"]))
    count = None if raw.get("count") is None else int(raw["count"])
    if kind == "int":
        return Int(int(raw["minval"]), int(raw["maxval"]), count)
    if kind == "double":
        return Double(float(raw["minval"]), float(raw["maxval"]), count)
    return Log(float(raw["minval"]), float(raw["maxval"]), float(raw["base"]), count)


def _is_whole(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) <= _EXACT_INT and value == int(value)


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) < 1e308


def _is_power(base: float, exponent: float) -> bool:
    try:
        value: float = float(base) ** float(exponent)
    except OverflowError:
        return False
    return 0 < value < math.inf


_NUMBERS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "int": (_is_whole, "a whole number"),
    "double": (_is_number, "a number"),
    "log": (_is_number, "a number"),
}
