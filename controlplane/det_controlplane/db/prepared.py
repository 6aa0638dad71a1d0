"""pg8000 connections that prepare each statement once.

pg8000 parses, describes, binds and executes every statement anew: two round trips, and a walk over the SQL
in Python. Our statements are constants, so they are prepared at first use and afterwards cost one round trip;
`begin` travels with the first statement of its transaction.
"""

from collections import OrderedDict
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import pg8000.dbapi
from pg8000.converters import make_params
from pg8000.core import SYNC_MSG as _SYNC
from pg8000.core import Context, _flush, _write
from pg8000.dbapi import convert_paramstyle

_KEPT = 300  # a connection's prepared statements; log filters make statements of their own
_BEGIN = "begin transaction"


@lru_cache(maxsize=2048)
def _numbered(operation: str) -> str:
    statement, _ = convert_paramstyle("format", operation, ())
    return str(statement)


class PreparedCursor(pg8000.dbapi.Cursor):  # type: ignore[misc]
    def execute(self, operation: str, args: Sequence[Any] = (), stream: Any = None) -> None:
        connection = self._c
        if connection is None or connection._sock is None or stream is not None:
            super().execute(operation, args, stream=stream)
            return
        self._context = connection.run_prepared(operation, args)
        self._row_iter = None if self._context.rows is None else iter(self._context.rows)
        self._input_oids = ()
        self.input_types: list[Any] = []


class PreparedConnection(pg8000.dbapi.Connection):  # type: ignore[misc]
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._prepared: OrderedDict[str, tuple[bytes, Any, Any]] = OrderedDict()

    def cursor(self) -> PreparedCursor:
        return PreparedCursor(self)

    def run_prepared(self, operation: str, args: Sequence[Any]) -> Any:
        name, columns, input_funcs = self._prepare(operation)
        begins = not self._in_transaction and not self.autocommit
        if begins:
            self.send_QUERY(_BEGIN)
        context = Context(columns=columns, input_funcs=input_funcs, statement=operation)
        self.send_BIND(name, make_params(self.py_types, args))
        self.send_EXECUTE()
        _write(self._sock, _SYNC)
        _flush(self._sock)
        if begins:
            self.handle_messages(Context(_BEGIN))
        self.handle_messages(context)
        return context

    def _prepare(self, operation: str) -> tuple[bytes, Any, Any]:
        found = self._prepared.get(operation)
        if found is not None:
            self._prepared.move_to_end(operation)
            return found
        if len(self._prepared) >= _KEPT:
            _, (oldest, _, _) = self._prepared.popitem(last=False)
            self.close_prepared_statement(oldest)
        if not self._in_transaction and not self.autocommit:
            self.execute_simple(_BEGIN)
        prepared: tuple[bytes, Any, Any] = self.prepare_statement(_numbered(operation), ())
        self._prepared[operation] = prepared
        return prepared


def connect(**options: Any) -> PreparedConnection:
    return PreparedConnection(**options)
