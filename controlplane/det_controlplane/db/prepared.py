"""pg8000 connections that prepare each statement once.

pg8000 parses, describes, binds and executes every statement anew: two round trips, and a walk over the SQL
in Python. Our statements are constants, so they are prepared at first use and afterwards cost one round trip;
`begin` travels with the first statement of its transaction.
"""

import re
from collections import OrderedDict, namedtuple
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

import pg8000.dbapi
from pg8000.converters import TIMESTAMPTZ, make_params, timestamptz_in
from pg8000.core import SYNC_MSG as _SYNC
from pg8000.core import Context, _flush, _write

_KEPT = 300  # a connection's prepared statements; log filters make statements of their own
_BEGIN, _COMMIT, _ROLLBACK = "begin transaction", "commit", "rollback"
# `:name`, but neither the `::type` of a cast nor the `24:MI` of a time format.
_PARAMETER = re.compile(r"(?<![:\w\\]):(\w+)(?!:)")


@lru_cache(maxsize=2048)
def numbered(statement: str) -> tuple[str, tuple[str, ...]]:
    """The statement with $1, $2, … for its parameters, and their names in that order."""
    names: dict[str, int] = {}

    def number(match: "re.Match[str]") -> str:
        return f"${names.setdefault(match[1], len(names) + 1)}"

    return _PARAMETER.sub(number, statement), tuple(names)


@lru_cache(maxsize=1024)
def _row_type(columns: tuple[str, ...]) -> Any:
    """A named tuple; `_mapping` is the row as a dictionary."""
    base = namedtuple("Row", columns, rename=True)  # type: ignore[misc]
    return type("Row", (base,), {"__slots__": (), "_mapping": property(base._asdict)})


def _time(written: str) -> Any:
    """A tenth of the cost of pg8000's own reading, which parses a format for each value."""
    try:
        return datetime.fromisoformat(written + ":00" if written[-3] in "+-" else written)
    except ValueError:  # infinity, years beyond 9999, and fractions that Python 3.10 does not read
        return timestamptz_in(written)


@dataclass(frozen=True, slots=True)
class _Prepared:
    sql: str
    name: bytes
    parameters: tuple[str, ...]
    columns: Any
    input_funcs: Any
    row: Any  # builds one row; None for statements that return none


class PreparedConnection(pg8000.dbapi.Connection):  # type: ignore[misc]
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._prepared: OrderedDict[str, _Prepared] = OrderedDict()
        self.register_in_adapter(TIMESTAMPTZ, _time)

    def rows_of(self, statement: str, params: Mapping[str, Any]) -> Sequence[Any]:
        prepared = self._prepare(statement)
        rows = self._run(prepared, params).rows
        return [] if prepared.row is None else list(map(prepared.row, rows))

    def changed_by(self, statement: str, params: Mapping[str, Any]) -> int:
        return int(self._run(self._prepare(statement), params).row_count)

    def changed_by_last(self, statement: str, params: Mapping[str, Any]) -> int:
        """The statement and the commit after it, in one round trip."""
        return int(self._run(self._prepare(statement), params, ends=True).row_count)

    def commit(self) -> None:
        if self._in_transaction:
            self.execute_simple(_COMMIT)

    def rollback(self) -> None:
        if self._in_transaction:
            self.execute_simple(_ROLLBACK)

    def _run(self, prepared: _Prepared, params: Mapping[str, Any], *, ends: bool = False) -> Any:
        values = [params[name] for name in prepared.parameters]
        begins = not self._in_transaction and not self.autocommit
        if begins:
            self.send_QUERY(_BEGIN)
        context = Context(
            columns=prepared.columns, input_funcs=prepared.input_funcs, statement=prepared.sql
        )
        self.send_BIND(prepared.name, make_params(self.py_types, values))
        self.send_EXECUTE()
        _write(self._sock, _SYNC)
        if ends:
            self.send_QUERY(_COMMIT)
        _flush(self._sock)
        if begins:
            self.handle_messages(Context(_BEGIN))
        try:
            self.handle_messages(context)
        finally:
            if ends:
                # After an error the server takes the commit for a rollback.
                self.handle_messages(Context(_COMMIT if context.error is None else _ROLLBACK))
        return context

    def _prepare(self, statement: str) -> _Prepared:
        found = self._prepared.get(statement)
        if found is not None:
            self._prepared.move_to_end(statement)
            return found
        if len(self._prepared) >= _KEPT:
            _, oldest = self._prepared.popitem(last=False)
            self.close_prepared_statement(oldest.name)
        if not self._in_transaction and not self.autocommit:
            self.execute_simple(_BEGIN)
        sql, parameters = numbered(statement)
        name, columns, input_funcs = self.prepare_statement(sql, ())
        row = _row_type(tuple(c["name"] for c in columns))._make if columns else None
        prepared = _Prepared(sql, name, parameters, columns, input_funcs, row)
        self._prepared[statement] = prepared
        return prepared


def connect(**options: Any) -> PreparedConnection:
    return PreparedConnection(**options)
