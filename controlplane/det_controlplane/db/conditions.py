"""Turn conditions on table columns into SQL: what holds of text, numbers, dates and lists, whatever they are of."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Double,
    Text,
    and_,
    asc,
    case,
    cast,
    desc,
    func,
    literal,
    literal_column,
    not_,
    or_,
    true,
)
from sqlalchemy.dialects.postgresql import JSONB

from det_controlplane.core.filters import ColumnType, Condition, Filter, Group, Operator, SortKey
from det_controlplane.core.problems import InvalidConfig, Problem, shown
from det_controlplane.db.schema.base import Time

Value = ColumnElement[Any]
Holds = ColumnElement[bool]
# Each of these says that the one it names does not hold; so it holds of what has no value.
_NEGATED = {
    Operator.NOT_EQUAL: Operator.EQUAL,
    Operator.NOT_CONTAINS: Operator.CONTAINS,
    Operator.EMPTY: Operator.NOT_EMPTY,
}
_COMPARE: dict[Operator, Callable[[Value, Value], ColumnElement[bool]]] = {
    Operator.EQUAL: lambda a, b: a == b,
    Operator.LESS: lambda a, b: a < b,
    Operator.LESS_EQUAL: lambda a, b: a <= b,
    Operator.GREATER: lambda a, b: a > b,
    Operator.GREATER_EQUAL: lambda a, b: a >= b,
}
_NOT_FINITE = ("NaN", "Infinity", "-Infinity")
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|[-+]?Infinity", re.ASCII)


def _as_it_is(condition: ColumnElement[bool]) -> ColumnElement[bool]:
    return condition


@dataclass(frozen=True, slots=True, eq=False)
class TableColumn:
    """A column of a table. Without a type its values are JSON, each of a type of its own.

    A condition holds where it holds of any of the values, each looked at `within` the rows that have it."""

    values: tuple[Value, ...]
    type: ColumnType | None
    within: Callable[[ColumnElement[bool]], ColumnElement[bool]] = _as_it_is
    order: Value | None = None  # where not all that it has can be ordered by
    known: Sequence[str] = ()  # all names that it can have, where there are few
    equals: Callable[[str], Holds] | None = None  # compares with a known name
    filled: bool = False  # no row is without a value


Find = Callable[[str], TableColumn | None]


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a table: those of fixed names, and families by how their names are written, like hp.NAME."""

    fixed: Mapping[str, TableColumn]
    families: Mapping[str, Find]

    def get(self, name: str) -> TableColumn | None:
        if name in self.fixed:
            return self.fixed[name]
        return next((found for of in self.families.values() if (found := of(name))), None)

    @property
    def names(self) -> str:
        *others, last = [*sorted(self.fixed), *self.families]
        return f"{', '.join(others)} and {last}"


def where(chosen: Filter, columns: Columns) -> ColumnElement[bool]:
    """Return the conditions on rows; the caller excludes archived ones."""
    return _group(chosen.root, columns)


def ordered(keys: tuple[SortKey, ...], columns: Columns) -> list[ColumnElement[Any]]:
    """Return the expressions to order by; rows without a value come last in either order."""
    by: list[ColumnElement[Any]] = []
    for key in keys:
        column = _found(columns, key.column, "sort")
        value = column.values[0] if column.order is None else column.order
        parts = [value] if column.type else [_number(value), _text(value)]
        directed = [(desc if key.descending else asc)(part) for part in parts]
        # PostgreSQL reads an ascending index backwards only if the order does not say where NULL goes.
        by += directed if column.filled else [part.nulls_last() for part in directed]
    return by


def _group(group: Group, columns: Columns) -> ColumnElement[bool]:
    parts = [
        _group(child, columns) if isinstance(child, Group) else _condition(child, columns)
        for child in group.children
    ]
    if not parts:
        return true()
    return and_(*parts) if group.conjunction == "and" else or_(*parts)


def _condition(condition: Condition, columns: Columns) -> ColumnElement[bool]:
    column = _found(columns, condition.column, "filter")
    operator = _NEGATED.get(condition.operator, condition.operator)
    if column.equals and operator in _COMPARE:
        _only_equal(ColumnType.TEXT, operator, condition)
        holds = column.equals(_known_name(condition, column.known))
    else:
        holds = column.within(
            or_(*[_holds(column, value, operator, condition) for value in column.values])
        )
    return not_(func.coalesce(holds, False)) if condition.operator in _NEGATED else holds


def _found(columns: Columns, name: str, what: str) -> TableColumn:
    column = columns.get(name)
    if column is None:
        raise _refused(what, f"there is no column {shown(name)}; there are {columns.names}")
    return column


def _holds(column: TableColumn, value: Value, operator: Operator, asked: Condition) -> Holds:
    if column.type is None:
        return _of_json(value, operator, asked)
    return _of_type(value, column.type, operator, asked)


def _of_type(value: Value, type_: ColumnType, operator: Operator, asked: Condition) -> Holds:
    if operator is Operator.NOT_EMPTY:
        empty = {ColumnType.TEXT: "''", ColumnType.ARRAY: "'{}'"}.get(type_)
        there = value.is_not(None)
        return there if empty is None else and_(there, value != literal_column(empty))
    if type_ is ColumnType.ARRAY:
        joined = func.array_to_string(value, literal_column("E'\\n'"))
        if operator is Operator.CONTAINS:
            return _contains(joined, asked)
        _only_equal(type_, operator, asked)
        return value.op("@>")(cast([_as_text(asked.value)], ARRAY(Text)))
    if operator is Operator.CONTAINS:
        return _contains(value, asked)
    if type_ is ColumnType.NUMBER:
        return _COMPARE[operator](value, cast(literal(_as_number(asked)), Double))
    if type_ is ColumnType.DATE:
        return _COMPARE[operator](
            func.date_trunc("second", value), cast(literal(_as_time(asked)), Time)
        )
    return _COMPARE[operator](value, cast(literal(_as_text(asked.value)), Text))


def _of_json(value: Value, operator: Operator, asked: Condition) -> Holds:
    type_ = asked.type or _type_of(asked.value)
    if operator is Operator.NOT_EMPTY:
        empty = func.coalesce(cast(value, Text), "null").in_(["null", '""', "[]", "{}"])
        return not_(empty)
    if operator is Operator.CONTAINS:
        return _contains(cast(value, Text) if type_ is ColumnType.ARRAY else _text(value), asked)
    if type_ is ColumnType.ARRAY:
        _only_equal(type_, operator, asked)
        return value.op("@>")(cast([asked.value], JSONB))
    if type_ is ColumnType.NUMBER:
        return _COMPARE[operator](_number(value), cast(literal(_as_number(asked)), Double))
    if operator is Operator.EQUAL:
        return _text(value) == cast(literal(_as_text(asked.value)), Text)
    return _before_or_after(value, operator, asked)


def _before_or_after(value: Value, operator: Operator, asked: Condition) -> Holds:
    """Compare what has an order: numbers with a number, however it is written, and dates with a date."""
    if _is_number(asked.value):
        return _COMPARE[operator](_number(value), cast(literal(_as_number(asked)), Double))
    if _time(asked.value) is None:
        raise _wrong_value(asked, "a number or a date")
    # Dates in JSON are text that orders by time; one that is not a date is no reason to fail.
    return _COMPARE[operator](_date(value), cast(literal(_as_text(asked.value)), Text))


def _text(value: Value) -> Value:
    nothing: Any = literal_column("'{}'::text[]")
    return value.op("#>>")(nothing)


def _number(value: Value) -> Value:
    """Return the number of a JSON value, also one that JSON has no word for; NULL where it is none."""
    text = _text(value)
    numeric = or_(func.jsonb_typeof(value) == "number", text.in_(_NOT_FINITE))
    return case((numeric, cast(text, Double)))


def _date(value: Value) -> Value:
    """Return the text of a JSON value that begins as a date does; NULL where it is none."""
    text = _text(value)
    return case((text.regexp_match(literal_column(r"'^\d{4}-\d\d-\d\d'")), text))


def _contains(value: Value, asked: Condition) -> Holds:
    return cast(value, Text).icontains(_as_text(asked.value), autoescape=True)


def _only_equal(type_: ColumnType, operator: Operator, asked: Condition) -> None:
    if operator is not Operator.EQUAL:
        raise _refused(
            "filter",
            f"{asked.column}: {operator.value} cannot compare a column of type {type_.value};"
            " there are =, !=, contains, notContains, isEmpty and notEmpty",
        )


def _type_of(value: Any) -> ColumnType:
    numeric = isinstance(value, (int, float)) and not isinstance(value, bool)
    return ColumnType.NUMBER if numeric else ColumnType.TEXT


def _as_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _known_name(asked: Condition, known: Sequence[str]) -> str:
    """Return the name that is meant, in any case and also as the API's answers write it."""
    name = _as_text(asked.value).strip().upper().removeprefix("STATE_")
    if name not in known:
        raise _wrong_value(asked, f"one of {', '.join(known)}")
    return name


def _is_number(value: Any) -> bool:
    return _type_of(value) is ColumnType.NUMBER or _NUMBER.fullmatch(str(value).strip()) is not None


def _as_number(asked: Condition) -> float:
    try:
        return float(asked.value)
    except (TypeError, ValueError, OverflowError) as e:
        raise _wrong_value(asked, "a number") from e


def _as_time(asked: Condition) -> datetime:
    found = _time(asked.value)
    if found is None:
        raise _wrong_value(asked, "a date or time such as 2026-01-31 or 2026-01-31T08:00:00Z")
    return found


def _time(value: Any) -> datetime | None:
    try:
        found = datetime.fromisoformat(str(value).replace("Z", "+00:00"))
        found = found if found.tzinfo else found.replace(tzinfo=timezone.utc)
        return found.astimezone(timezone.utc).replace(microsecond=0)
    except (ValueError, OverflowError):
        return None


def _wrong_value(asked: Condition, allowed: str) -> InvalidConfig:
    about = f"{asked.column} {asked.operator.value}"
    return _refused("filter", f"{about}: value must be {allowed}, not {shown(asked.value)}")


def _refused(path: str, message: str) -> InvalidConfig:
    return InvalidConfig([Problem(path, message)], what="request")
