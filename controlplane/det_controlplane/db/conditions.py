"""Turn conditions on table columns into SQL: what holds of text, numbers, dates and lists, whatever they are of."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Double,
    String,
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


Find = Callable[[str], TableColumn | None]


def where(chosen: Filter, find: Find) -> ColumnElement[bool]:
    """Return what rows must meet; archived ones are the caller's matter."""
    return _group(chosen.root, find)


def ordered(keys: tuple[SortKey, ...], find: Find) -> list[ColumnElement[Any]]:
    """Return what to order by; rows without a value come last in either order."""
    by: list[ColumnElement[Any]] = []
    for key in keys:
        column = _found(find, key.column, "sort")
        value = column.values[0] if column.order is None else column.order
        parts = [value] if column.type else [_number(value), _text(value)]
        by += [(desc if key.descending else asc)(part).nulls_last() for part in parts]
    return by


def _group(group: Group, find: Find) -> ColumnElement[bool]:
    parts = [
        _group(child, find) if isinstance(child, Group) else _condition(child, find)
        for child in group.children
    ]
    if not parts:
        return true()
    return and_(*parts) if group.conjunction == "and" else or_(*parts)


def _condition(condition: Condition, find: Find) -> ColumnElement[bool]:
    column = _found(find, condition.column, "filter")
    operator = _NEGATED.get(condition.operator, condition.operator)
    holds = column.within(
        or_(*[_holds(value, column.type, operator, condition) for value in column.values])
    )
    return not_(func.coalesce(holds, False)) if condition.operator in _NEGATED else holds


def _found(find: Find, name: str, what: str) -> TableColumn:
    column = find(name)
    if column is None:
        raise _refused(
            what, f"there is no column {shown(name)}; 'GET /projects/ID/columns' lists them"
        )
    return column


def _holds(
    value: Value, type_: ColumnType | None, operator: Operator, condition: Condition
) -> ColumnElement[bool]:
    if type_ is None:
        type_ = condition.type or _type_of(condition.value)
        return _of_json(value, type_, operator, condition.value)
    return _of_type(value, type_, operator, condition.value)


def _of_type(
    value: Value, type_: ColumnType, operator: Operator, given: Any
) -> ColumnElement[bool]:
    if operator is Operator.NOT_EMPTY:
        empty = {ColumnType.TEXT: "''", ColumnType.ARRAY: "'{}'"}.get(type_)
        there = value.is_not(None)
        return there if empty is None else and_(there, value != literal_column(empty))
    if type_ is ColumnType.ARRAY:
        joined = func.array_to_string(value, literal_column("E'\\n'"))
        if operator is Operator.CONTAINS:
            return _contains(joined, given)
        _only_equal(type_, operator)
        return value.op("@>")(cast([_as_text(given)], ARRAY(Text)))
    if operator is Operator.CONTAINS:
        return _contains(cast(value, Text), given)
    if type_ is ColumnType.NUMBER:
        return _COMPARE[operator](value, cast(literal(_as_number(given)), Double))
    if type_ is ColumnType.DATE:
        return _COMPARE[operator](
            func.date_trunc("second", value), cast(literal(_as_time(given)), Time)
        )
    return _COMPARE[operator](value, cast(literal(_as_text(given)), Text))


def _of_json(
    value: Value, type_: ColumnType, operator: Operator, given: Any
) -> ColumnElement[bool]:
    if operator is Operator.NOT_EMPTY:
        empty = func.coalesce(cast(value, Text), "null").in_(["null", '""', "[]", "{}"])
        return not_(empty)
    if operator is Operator.CONTAINS:
        return _contains(cast(value, Text) if type_ is ColumnType.ARRAY else _text(value), given)
    if type_ is ColumnType.ARRAY:
        _only_equal(type_, operator)
        return value.op("@>")(cast([given], JSONB))
    if type_ is ColumnType.NUMBER:
        return _COMPARE[operator](_number(value), cast(literal(_as_number(given)), Double))
    # Dates in JSON are text that orders by time; one that is not a date is no reason to fail.
    return _COMPARE[operator](_text(value), cast(literal(_as_text(given)), Text))


def _text(value: Value) -> Value:
    nothing: Any = literal_column("'{}'::text[]")
    return value.op("#>>")(nothing)


def _number(value: Value) -> Value:
    """Return the number of a JSON value, also one that JSON has no word for; NULL where it is none."""
    text = _text(value)
    numeric = or_(func.jsonb_typeof(value) == "number", text.in_(_NOT_FINITE))
    return case((numeric, cast(text, Double)))


def _contains(value: Value, given: Any) -> ColumnElement[bool]:
    return cast(value, String).icontains(_as_text(given), autoescape=True)


def _only_equal(type_: ColumnType, operator: Operator) -> None:
    if operator is not Operator.EQUAL:
        raise _refused("filter", f"{operator.value} cannot compare a column of type {type_.value}")


def _type_of(value: Any) -> ColumnType:
    numeric = isinstance(value, (int, float)) and not isinstance(value, bool)
    return ColumnType.NUMBER if numeric else ColumnType.TEXT


def _as_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _as_number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError) as e:
        raise _refused("filter", f"value must be a number, not {shown(value)}") from e


def _as_time(value: Any) -> datetime:
    try:
        found = datetime.fromisoformat(str(value).replace("Z", "+00:00"))
        found = found if found.tzinfo else found.replace(tzinfo=timezone.utc)
        return found.astimezone(timezone.utc).replace(microsecond=0)
    except (ValueError, OverflowError) as e:
        raise _refused("filter", f"value must be a date or time, not {shown(value)}") from e


def _refused(path: str, message: str) -> InvalidConfig:
    return InvalidConfig([Problem(path, message)], what="request")


def finder(fixed: Mapping[str, TableColumn], *others: Find) -> Find:
    """Look a name up among fixed columns, then by what it begins with."""

    def find(name: str) -> TableColumn | None:
        if name in fixed:
            return fixed[name]
        return next((column for of in others if (column := of(name)) is not None), None)

    return find
