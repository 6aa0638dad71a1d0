"""Parse the filters and sort orders of tables of experiments and runs: a tree of conditions and a list of columns.

See docs/reference/compatibility.md#tables-of-experiments-and-runs."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

from det_controlplane.core.problems import InvalidConfig, Problem, shown

# The limits of nesting, of groups and conditions together, and of sort columns. Real tables use far fewer.
_DEEPEST, _MOST, _MOST_KEYS = 20, 500, 50


class Operator(str, Enum):
    EQUAL = "="
    NOT_EQUAL = "!="
    LESS = "<"
    LESS_EQUAL = "<="
    GREATER = ">"
    GREATER_EQUAL = ">="
    CONTAINS = "contains"
    NOT_CONTAINS = "notContains"
    EMPTY = "isEmpty"
    NOT_EMPTY = "notEmpty"


# The states in listings of experiments and trials: the stored states, and the phases of ACTIVE work.
WORK_STATES = (
    "UNSPECIFIED", "ACTIVE", "PAUSED", "STOPPING_COMPLETED", "STOPPING_CANCELED", "STOPPING_ERROR", "STOPPING_KILLED",
    "COMPLETED", "CANCELED", "ERROR", "DELETED", "DELETING", "DELETE_FAILED", "QUEUED", "PULLING", "STARTING",
    "RUNNING",
)  # fmt: skip


class ColumnType(str, Enum):
    TEXT = "TEXT"
    NUMBER = "NUMBER"
    DATE = "DATE"
    ARRAY = "ARRAY"


class Location(str, Enum):
    """The source of a column's values."""

    EXPERIMENT = "EXPERIMENT"
    HYPERPARAMETERS = "HYPERPARAMETERS"
    VALIDATIONS = "VALIDATIONS"
    TRAINING = "TRAINING"
    CUSTOM_METRIC = "CUSTOM_METRIC"
    RUN = "RUN"
    RUN_HYPERPARAMETERS = "RUN_HYPERPARAMETERS"
    RUN_METADATA = "RUN_METADATA"


_PREFIXES = {
    Location.HYPERPARAMETERS: "hp.",
    Location.RUN_HYPERPARAMETERS: "hp.",
    Location.RUN_METADATA: "metadata.",
}


@dataclass(frozen=True, slots=True)
class Condition:
    column: str
    operator: Operator
    value: Any
    type: ColumnType | None  # chosen by the caller for a column that may contain several types


@dataclass(frozen=True, slots=True)
class Group:
    conjunction: Literal["and", "or"]
    children: tuple["Condition | Group", ...]


@dataclass(frozen=True, slots=True)
class Filter:
    root: Group
    show_archived: bool

    @property
    def has_conditions(self) -> bool:
        return _has_conditions(self.root)

    @property
    def columns(self) -> frozenset[str]:
        """Return the names of the columns that conditions compare."""
        return frozenset(_columns(self.root))


def _columns(group: Group) -> Iterator[str]:
    for child in group.children:
        if isinstance(child, Group):
            yield from _columns(child)
        else:
            yield child.column


def _has_conditions(group: Group) -> bool:
    return any(isinstance(c, Condition) or _has_conditions(c) for c in group.children)


EVERYTHING = Filter(Group("and", ()), show_archived=True)


@dataclass(frozen=True, slots=True)
class SortKey:
    column: str
    descending: bool


def parse_filter(text: str) -> Filter:
    """Parse the JSON of a filter. An empty text matches everything."""
    if not text.strip():
        return EVERYTHING
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as e:
        raise _invalid("filter", f"is not valid JSON: {e}") from e
    if not isinstance(document, dict):
        raise _invalid("filter", "must be an object with filterGroup and showArchived")
    group = document.get("filterGroup")
    root = Group("and", ())
    if group is not None:
        root = _Reader().group(group, "filter.filterGroup", 1)
    return Filter(root, bool(document.get("showArchived")))


def parse_sort(text: str) -> tuple[SortKey, ...]:
    """Parse a list such as `id=desc,hp.lr=asc`."""
    keys = []
    for part in text.split(","):
        if not part.strip():
            continue
        column, equals, order = part.strip().rpartition("=")
        if not equals or not column or order not in ("asc", "desc"):
            raise _invalid(
                "sort", f"must be a list of COLUMN=asc or COLUMN=desc, not {shown(part)}"
            )
        keys.append(SortKey(column, order == "desc"))
        if len(keys) > _MOST_KEYS:
            raise _invalid("sort", f"must not have more than {_MOST_KEYS} columns")
    return tuple(keys)


class _Reader:
    """Parse a tree up to a maximum size."""

    def __init__(self) -> None:
        self._remaining = _MOST

    def group(self, node: Any, path: str, depth: int) -> Group:
        if depth > _DEEPEST:
            raise _invalid(path, f"must not be deeper than {_DEEPEST} groups")
        if not isinstance(node, Mapping) or node.get("kind", "group") != "group":
            raise _invalid(path, "must be a group: an object with kind, conjunction and children")
        conjunction = node.get("conjunction", "and")
        if conjunction not in ("and", "or"):
            raise _invalid(f"{path}.conjunction", f"must be and or or, not {shown(conjunction)}")
        children = node.get("children") or []
        if not isinstance(children, list):
            raise _invalid(f"{path}.children", "must be a list")
        nodes = [
            self._node(child, f"{path}.children[{i}]", depth) for i, child in enumerate(children)
        ]
        return Group(conjunction, tuple(nodes))

    def _node(self, node: Any, path: str, depth: int) -> Condition | Group:
        kind = node.get("kind") if isinstance(node, Mapping) else None
        self._remaining -= 1
        if self._remaining < 0:
            raise _invalid(path, f"is one condition too many: {_MOST} are understood")
        if kind == "group":
            return self.group(node, path, depth + 1)
        if kind == "field":
            return self._condition(node, path)
        raise _invalid(path, f"kind must be group or field, not {shown(kind)}")

    def _condition(self, node: Mapping[str, Any], path: str) -> Condition:
        column = node.get("columnName")
        if not isinstance(column, str) or not column:
            raise _invalid(f"{path}.columnName", "is required")
        operator = _parse_member(Operator, node.get("operator"), f"{path}.operator")
        column = _qualify_column(column, _location(node.get("location"), f"{path}.location"))
        kind = str(node.get("type") or "").removeprefix("COLUMN_TYPE_")
        type_ = (
            None
            if kind in ("", "UNSPECIFIED")
            else _parse_member(ColumnType, kind, f"{path}.type", "COLUMN_TYPE_")
        )
        value = node.get("value")
        has_value = operator not in (Operator.EMPTY, Operator.NOT_EMPTY)
        if has_value and (value is None or isinstance(value, (dict, list))):
            raise _invalid(f"{path}.value", f"must be text, a number or a date, not {shown(value)}")
        return Condition(column, operator, value, type_)


def _location(value: Any, path: str) -> Location | None:
    name = str(value or "").removeprefix("LOCATION_TYPE_")
    if name in ("", "UNSPECIFIED"):
        return None
    location: Location = _parse_member(Location, name, path, "LOCATION_TYPE_")
    return location


def _qualify_column(column: str, location: Location | None) -> str:
    """Return the name of a column with its prefix. Clients may omit the prefix if they send the location."""
    prefix = _PREFIXES.get(location) if location else None
    return column if prefix is None or column.startswith(prefix) else prefix + column


def _parse_member(kind: Any, value: Any, path: str, prefix: str = "") -> Any:
    try:
        return kind(value)
    except ValueError as e:
        names = ", ".join(prefix + member.value for member in kind)
        raise _invalid(path, f"must be one of {names}, not {shown(value)}") from e


def _invalid(path: str, message: str) -> InvalidConfig:
    return InvalidConfig([Problem(path, message)], what="request")
