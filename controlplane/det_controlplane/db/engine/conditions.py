"""Translate conditions on table columns into SQL, for text, numbers, dates and lists."""

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
from det_controlplane.db.experiments import run_values
from det_controlplane.db.experiments.run_values import KeptValue, Read, number_of, text_of
from det_controlplane.db.schema.base import Time

Value = ColumnElement[Any]
Holds = ColumnElement[bool]
# Each operator negates the named one, so it also holds for missing values.
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
    kept: KeptValue | None = None  # where `run_values` has its values
    filled: bool = False  # no row is without a value


Find = Callable[[str], TableColumn | None]


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a table: fixed names, and families of names such as hp.NAME."""

    fixed: Mapping[str, TableColumn]
    families: Mapping[str, Find]

    def get(self, name: str) -> TableColumn | None:
        if name in self.fixed:
            return self.fixed[name]
        return next((column for of in self.families.values() if (column := of(name))), None)

    @property
    def names(self) -> str:
        *others, last = [*sorted(self.fixed), *self.families]
        return f"{', '.join(others)} and {last}"


@dataclass(frozen=True, slots=True)
class Where:
    """A condition in two forms: `page` for some of the rows in an order, `every` for all rows or their number."""

    page: Holds
    every: Holds


def where(chosen: Filter, columns: Columns, read: Read) -> Where:
    """Return the conditions on rows; the caller excludes archived ones. `read` executes a statement."""
    return _group(chosen.root, columns, read)


def ordered(keys: tuple[SortKey, ...], columns: Columns) -> list[ColumnElement[Any]]:
    """Return the expressions to order by; rows without a value come last in either order."""
    by: list[ColumnElement[Any]] = []
    for key in keys:
        column = _find_column(columns, key.column, "sort")
        value = column.values[0] if column.order is None else column.order
        parts = [value] if column.type else [number_of(value), _text_without_number(value)]
        directed = [(desc if key.descending else asc)(part) for part in parts]
        # PostgreSQL reads an ascending index backwards only if the order does not say where NULL goes.
        by += directed if column.filled else [part.nulls_last() for part in directed]
    return by


def _text_without_number(value: Value) -> Value:
    return case((number_of(value).is_(None), text_of(value)))


def _group(group: Group, columns: Columns, read: Read) -> Where:
    parts = [
        _group(child, columns, read)
        if isinstance(child, Group)
        else _condition(child, columns, read)
        for child in group.children
    ]
    if not parts:
        return Where(true(), true())
    join = and_ if group.conjunction == "and" else or_
    return Where(join(*[p.page for p in parts]), join(*[p.every for p in parts]))


def _condition(condition: Condition, columns: Columns, read: Read) -> Where:
    column = _find_column(columns, condition.column, "filter")
    operator = _NEGATED.get(condition.operator, condition.operator)
    if column.equals and operator in _COMPARE:
        _only_equal(ColumnType.TEXT, operator, condition)
        in_row = column.equals(_known_name(condition, column.known))
    else:
        in_row = column.within(
            or_(*[_holds(column, value, operator, condition) for value in column.values])
        )
    forms = [in_row, in_row]
    of_kept = _of_kept(operator, condition) if column.kept else None
    if column.kept and of_kept is not None:
        in_document = _of_json(column.kept.value, operator, condition)
        is_few, among = column.kept.among(of_kept, in_document, read)
        # If many rows match, it is faster to read a page in the order of the rows.
        forms = [among if is_few else in_row, among]
    if condition.operator in _NEGATED:
        forms = [not_(func.coalesce(form, False)) for form in forms]
    return Where(*forms)


def _find_column(columns: Columns, name: str, what: str) -> TableColumn:
    column = columns.get(name)
    if column is None:
        raise _request_error(what, f"there is no column {shown(name)}; there are {columns.names}")
    return column


def _holds(column: TableColumn, value: Value, operator: Operator, condition: Condition) -> Holds:
    if column.type is None:
        return _of_json(value, operator, condition)
    return _of_type(value, column.type, operator, condition)


def _of_type(value: Value, type_: ColumnType, operator: Operator, condition: Condition) -> Holds:
    if operator is Operator.NOT_EMPTY:
        empty = {ColumnType.TEXT: "''", ColumnType.ARRAY: "'{}'"}.get(type_)
        there = value.is_not(None)
        return there if empty is None else and_(there, value != literal_column(empty))
    if type_ is ColumnType.ARRAY:
        joined_text = func.array_to_string(value, literal_column("E'\\n'"))
        if operator is Operator.CONTAINS:
            return _contains(joined_text, condition)
        _only_equal(type_, operator, condition)
        return value.op("@>")(cast([_as_text(condition.value)], ARRAY(Text)))
    if operator is Operator.CONTAINS:
        return _contains(value, condition)
    if type_ is ColumnType.NUMBER:
        return _COMPARE[operator](value, cast(literal(_as_number(condition)), Double))
    if type_ is ColumnType.DATE:
        return _COMPARE[operator](
            func.date_trunc("second", value), cast(literal(_as_time(condition)), Time)
        )
    return _COMPARE[operator](value, cast(literal(_as_text(condition.value)), Text))


def _of_json(value: Value, operator: Operator, condition: Condition) -> Holds:
    type_ = condition.type or _type_of(condition.value)
    if operator is Operator.NOT_EMPTY:
        empty = func.coalesce(cast(value, Text), "null").in_(["null", '""', "[]", "{}"])
        return not_(empty)
    if operator is Operator.CONTAINS:
        return _contains(
            cast(value, Text) if type_ is ColumnType.ARRAY else text_of(value), condition
        )
    if type_ is ColumnType.ARRAY:
        _only_equal(type_, operator, condition)
        return value.op("@>")(cast([condition.value], JSONB))
    if type_ is ColumnType.NUMBER:
        return _COMPARE[operator](number_of(value), cast(literal(_as_number(condition)), Double))
    if operator is Operator.EQUAL:
        return text_of(value) == cast(literal(_as_text(condition.value)), Text)
    return _before_or_after(value, operator, condition)


def _of_kept(operator: Operator, condition: Condition) -> Holds | None:
    """Return the condition on a row of `run_values`; None if these rows cannot answer it."""
    type_ = condition.type or _type_of(condition.value)
    if operator not in _COMPARE or type_ is ColumnType.ARRAY:
        return None
    if type_ is ColumnType.NUMBER or (
        operator is not Operator.EQUAL and _is_number(condition.value)
    ):
        return _COMPARE[operator](run_values.NUMBER, cast(literal(_as_number(condition)), Double))
    text = _as_text(condition.value)
    # Rows of numbers have no text, and texts of lists and objects may be long.
    plain = (
        not _is_number(text) and text not in run_values.NOT_FINITE and text[:1] not in ("[", "{")
    )
    if operator is Operator.EQUAL and plain and len(text.encode()) <= run_values.LONGEST_TEXT:
        return cast(literal(text), Text) == run_values.TEXT
    return None


def _before_or_after(value: Value, operator: Operator, condition: Condition) -> Holds:
    """Compare ordered values: numbers in any notation with a number, and dates with a date."""
    if _is_number(condition.value):
        return _COMPARE[operator](number_of(value), cast(literal(_as_number(condition)), Double))
    if _time(condition.value) is None:
        raise _wrong_value(condition, "a number or a date")
    # Dates in JSON are texts that sort by time. A text that is not a date must not cause an error.
    return _COMPARE[operator](_date(value), cast(literal(_as_text(condition.value)), Text))


def _date(value: Value) -> Value:
    """Return the text of a JSON value that begins like a date, or NULL."""
    text = text_of(value)
    return case((text.regexp_match(literal_column(r"'^\d{4}-\d\d-\d\d'")), text))


def _contains(value: Value, condition: Condition) -> Holds:
    return cast(value, Text).icontains(_as_text(condition.value), autoescape=True)


def _only_equal(type_: ColumnType, operator: Operator, condition: Condition) -> None:
    if operator is not Operator.EQUAL:
        raise _request_error(
            "filter",
            f"{condition.column}: {operator.value} cannot compare a column of type {type_.value};"
            " there are =, !=, contains, notContains, isEmpty and notEmpty",
        )


def _type_of(value: Any) -> ColumnType:
    numeric = isinstance(value, (int, float)) and not isinstance(value, bool)
    return ColumnType.NUMBER if numeric else ColumnType.TEXT


def _as_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _known_name(condition: Condition, choices: Sequence[str]) -> str:
    """Return the value as a known name: in upper case, and without the prefix STATE_ of API responses."""
    name = _as_text(condition.value).strip().upper().removeprefix("STATE_")
    if name not in choices:
        raise _wrong_value(condition, f"one of {', '.join(choices)}")
    return name


def _is_number(value: Any) -> bool:
    return _type_of(value) is ColumnType.NUMBER or _NUMBER.fullmatch(str(value).strip()) is not None


def _as_number(condition: Condition) -> float:
    try:
        return float(condition.value)
    except (TypeError, ValueError, OverflowError) as e:
        raise _wrong_value(condition, "a number") from e


def _as_time(condition: Condition) -> datetime:
    time = _time(condition.value)
    if time is None:
        raise _wrong_value(condition, "a date or time such as 2026-01-31 or 2026-01-31T08:00:00Z")
    return time


def _time(value: Any) -> datetime | None:
    try:
        time = datetime.fromisoformat(str(value).replace("Z", "+00:00"))
        time = time if time.tzinfo else time.replace(tzinfo=timezone.utc)
        return time.astimezone(timezone.utc).replace(microsecond=0)
    except (ValueError, OverflowError):
        return None


def _wrong_value(condition: Condition, allowed: str) -> InvalidConfig:
    about = f"{condition.column} {condition.operator.value}"
    return _request_error(
        "filter", f"{about}: value must be {allowed}, not {shown(condition.value)}"
    )


def _request_error(path: str, message: str) -> InvalidConfig:
    return InvalidConfig([Problem(path, message)], what="request")
