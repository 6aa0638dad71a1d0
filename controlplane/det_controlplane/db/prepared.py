"""Connections that prepare each statement at its first use; `begin`, `commit` and writes whose outcome nobody waits for
travel with other statements."""

import socket
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from pg8000.core import CoreConnection

from det_controlplane.db import wire
from det_controlplane.db.sql import Statement
from det_controlplane.db.values import Decoder

_KEPT = 300  # a connection's prepared statements; log filters make statements of their own
_LONG_REST_S, _PATIENCE_S = 20.0, 2.0
_STALE = "0A000"  # a migration changed what the statement returns

_KEEPALIVE = {
    "TCP_KEEPIDLE": 20,
    "TCP_KEEPINTVL": 5,
    "TCP_KEEPCNT": 4,
    "TCP_USER_TIMEOUT": 40_000,
}

_CONTROL = {b"begin": "begin", b"commit": "commit", b"rollback": "rollback"}
_PREPARE_CONTROL = b"".join(wire.parse(name, sql) for name, sql in _CONTROL.items())
_BEGIN, _COMMIT, _ROLLBACK = (wire.bind(name, []) + wire.EXECUTE for name in _CONTROL)


@lru_cache(maxsize=1024)
def _row_type(columns: tuple[str, ...]) -> Any:
    """A named tuple; `_mapping` is the row as a dictionary."""
    base = namedtuple("Row", columns, rename=True)  # type: ignore[misc]
    return type("Row", (base,), {"__slots__": (), "_mapping": property(base._asdict)})


class _Prepared:
    """A statement under its name on one connection."""

    __slots__ = ("decoders", "name", "numbered", "parameters", "ready", "row", "sql")

    def __init__(self, statement: Statement, name: bytes) -> None:
        self.sql = statement.text
        self.name = name
        self.numbered, self.parameters = statement.numbered
        self.ready = False
        self.decoders: tuple[Decoder, ...] = ()
        self.row: Any = None  # builds one row; None for statements that return none

    def described(self, columns: Sequence[wire.Column]) -> None:
        self.ready = True
        self.decoders = tuple(decoder for _, decoder in columns)
        self.row = _row_type(tuple(name for name, _ in columns))._make if columns else None


class Question(NamedTuple):
    """A statement that only reads, and what it asks about."""

    statement: Statement
    params: Mapping[str, Any]


Check = Callable[[Sequence[Any]], object]
"""Sees rows and raises if they do not please."""


class PreparedConnection:
    def __init__(self, opened: CoreConnection) -> None:
        self._opened = opened
        self._wire = wire.Wire(opened._usock)
        self._prepared: OrderedDict[str, _Prepared] = OrderedDict()
        self._named = 0
        self._control_prepared = False
        self._waiting: list[bytes] = []  # bound and ready to be sent with what comes next

    @property
    def in_transaction(self) -> bool:
        return self._wire.in_transaction

    @property
    def broken(self) -> bool:
        return self._wire.broken

    def is_alive(self, idle_s: float) -> bool:
        """As far as can be told before it is used. After a long rest it is asked: a host that was frozen meanwhile, or a
        network that forgets, hears of no end."""
        return self._wire.is_silent() and (idle_s < _LONG_REST_S or self._wire.answers(_PATIENCE_S))

    def rows_of(
        self,
        statement: Statement,
        params: Mapping[str, Any],
        *,
        begins: bool = True,
        ends: bool = False,
    ) -> Sequence[Any]:
        """With `ends`, the commit travels along."""
        prepared = self._known(statement)
        return _rows(prepared, self._run(prepared, params, begins=begins, ends=ends).rows)

    def rows_after(
        self, first: Question, check: Check, statement: Statement, params: Mapping[str, Any]
    ) -> Sequence[Any]:
        """Two reads in one round trip. The rows of the first are checked before anything is told of the second."""
        asked, prepared = self._known(first.statement), self._known(statement)
        if not (asked.ready and prepared.ready):
            check(self.rows_of(first.statement, first.params, begins=False))
            return self.rows_of(statement, params, begins=False)
        answer = self._wire.exchange(
            _bound(asked, first.params)
            + wire.EXECUTE
            + _bound(prepared, params)
            + wire.EXECUTE
            + wire.SYNC
        )
        if not answer.changed:
            self._raise_error(asked, answer)
        count = answer.changed[0]
        check(_rows(asked, answer.rows[:count]))
        self._raise_error(prepared, answer)
        return _rows(prepared, answer.rows[count:])

    def changed_by(
        self, statement: Statement, params: Mapping[str, Any], *, ends: bool = False
    ) -> int:
        return self._run(self._known(statement), params, ends=ends).changed[0]

    def send_with_next(self, statement: Statement, params: Mapping[str, Any]) -> None:
        """A write that travels with the next statement, or with the commit; what it violates is told there."""
        prepared = self._known(statement)
        if prepared.ready and prepared.row is None:
            self._waiting.append(_bound(prepared, params) + wire.EXECUTE)
            return
        if not prepared.ready:
            self._run(prepared, params)
        if prepared.row is not None:
            raise TypeError(f"nobody would see the rows of {statement!r}")

    def commit(self) -> None:
        if self.in_transaction or self._waiting:
            begin = b"" if self.in_transaction else _BEGIN
            self._end(b"".join((begin, *self._taken(), _COMMIT)))

    def rollback(self) -> None:
        self._waiting.clear()
        if self.in_transaction:
            self._end(_ROLLBACK)

    def close(self) -> None:
        self._opened.close()

    def _end(self, message: bytes) -> None:
        answer = self._wire.exchange(message + wire.SYNC)
        if answer.error is not None:
            raise answer.error

    def _run(
        self,
        prepared: _Prepared,
        params: Mapping[str, Any],
        *,
        begins: bool = True,
        ends: bool = False,
    ) -> wire.Answer:
        """One round trip. A transaction begins with its first statement, unless `begins` is false."""
        bound = _bound(prepared, params)  # first: what cannot be sent keeps nothing else from it
        waiting = self._taken()
        begins = (begins or bool(waiting)) and not self.in_transaction
        answer = self._wire.exchange(
            b"".join(
                (
                    b"" if self._control_prepared else _PREPARE_CONTROL,
                    b"" if prepared.ready else self._preparation(prepared),
                    _BEGIN if begins else b"",
                    *waiting,
                    bound,
                    wire.EXECUTE,
                    _COMMIT if ends else b"",
                    wire.SYNC,
                )
            )
        )
        self._note_prepared(prepared, answer)
        self._raise_error(prepared, answer)
        del answer.changed[: begins + len(waiting)]
        return answer

    def _raise_error(self, prepared: _Prepared, answer: wire.Answer) -> None:
        if answer.error is not None:
            if answer.sqlstate == _STALE:
                self._prepared.pop(prepared.sql, None)
            raise answer.error

    def _taken(self) -> list[bytes]:
        waiting, self._waiting = self._waiting, []
        return waiting

    def _known(self, statement: Statement) -> _Prepared:
        found = self._prepared.get(statement.text)
        if found is not None:
            self._prepared.move_to_end(statement.text)
            return found
        self._named += 1
        return _Prepared(statement, b"s%d" % self._named)

    def _preparation(self, prepared: _Prepared) -> bytes:
        """Makes room for one more, too."""
        messages = wire.parse(prepared.name, prepared.numbered) + wire.describe(prepared.name)
        if len(self._prepared) < _KEPT:
            return messages
        _, oldest = self._prepared.popitem(last=False)
        return wire.close(oldest.name) + messages

    def _note_prepared(self, prepared: _Prepared, answer: wire.Answer) -> None:
        parsed = answer.parsed
        if not self._control_prepared:
            self._control_prepared = parsed >= len(_CONTROL)
            parsed -= len(_CONTROL)
        if parsed > 0:
            prepared.described(answer.columns)
            self._prepared[prepared.sql] = prepared


def _rows(prepared: _Prepared, rows: Sequence[bytes]) -> Sequence[Any]:
    make, decoders = prepared.row, prepared.decoders
    return [] if make is None else [make(wire.values(row, decoders)) for row in rows]


def _bound(prepared: _Prepared, params: Mapping[str, Any]) -> bytes:
    return wire.bind(prepared.name, [params[name] for name in prepared.parameters])


def connect(**options: Any) -> PreparedConnection:
    opened = CoreConnection(**options)
    raw = opened._usock
    if raw.family in (socket.AF_INET, socket.AF_INET6):
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _notice_silence(raw)
    raw.settimeout(None)
    return PreparedConnection(opened)


def _notice_silence(raw: socket.socket) -> None:
    """A server that vanished without a word fails its callers within a minute, not within hours."""
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):  # by platform
            raw.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
