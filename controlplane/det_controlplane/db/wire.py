"""PostgreSQL's extended protocol over a socket: what is asked together is sent and answered together.

pg8000 opens the connection. Its own way of executing writes each message by itself, asks the server to
flush after each of them, and reads the answers in pieces of a few bytes: several times the cost of this.
"""

import select
from struct import Struct
from typing import Any

from pg8000.exceptions import DatabaseError, InterfaceError

from det_controlplane.db.values import Decoder, decoder, encoded

_RECEIVE = 1 << 16

_HEADER = Struct("!ci")
_INT = Struct("!i")
_SHORT = Struct("!H")
_COLUMN = Struct("!ihihih")  # after the name: table, attribute, type, size, modifier, format

EXECUTE = b"E" + _INT.pack(9) + b"\0" + _INT.pack(0)
SYNC = b"S" + _INT.pack(4)

_DATA_ROW, _READY, _COMPLETE, _ERROR, _COLUMNS, _PARSED = b"DZCET1"
_IDLE = b"I"[0]


def parse(name: bytes, sql: str) -> bytes:
    body = name + b"\0" + sql.encode() + b"\0\0\0"
    return b"P" + _INT.pack(len(body) + 4) + body


def describe(name: bytes) -> bytes:
    return b"D" + _INT.pack(len(name) + 6) + b"S" + name + b"\0"


def close(name: bytes) -> bytes:
    return b"C" + _INT.pack(len(name) + 6) + b"S" + name + b"\0"


def bind(name: bytes, values: list[Any]) -> bytes:
    parts = [b"\0", name, b"\0\0\0", _SHORT.pack(len(values))]
    for value in values:
        written = encoded(value)
        if written is None:
            parts.append(b"\xff\xff\xff\xff")
        else:
            parts.append(_INT.pack(len(written)))
            parts.append(written)
    parts.append(b"\0\0")
    body = b"".join(parts)
    return b"B" + _INT.pack(len(body) + 4) + body


Column = tuple[str, Decoder]


class Answer:
    """Everything up to the server's readiness for more."""

    __slots__ = ("changed", "columns", "error", "parsed", "rows")

    def __init__(self) -> None:
        self.rows: list[bytes] = []  # undecoded, of all statements
        self.changed: list[int] = []  # rows, a statement
        self.columns: list[Column] = []
        self.parsed = 0
        self.error: DatabaseError | None = None

    @property
    def sqlstate(self) -> str:
        return "" if self.error is None else str(self.error.args[0].get("C", ""))


class Wire:
    def __init__(self, sock: Any) -> None:
        self._sock = sock
        self.in_transaction = False
        self.broken = False  # an exchange was cut short: what comes next belongs to it

    def is_silent(self) -> bool:
        """Whether nothing came unasked: a server that closes says so."""
        waiting = select.poll()
        waiting.register(self._sock, select.POLLIN)
        return not waiting.poll(0)

    def answers(self, within_s: float) -> bool:
        self._sock.settimeout(within_s)
        try:
            return self.exchange(SYNC).error is None
        except InterfaceError:
            return False
        finally:
            self._sock.settimeout(None)

    def exchange(self, messages: bytes) -> Answer:
        """Send, ending with SYNC, and read the whole answer."""
        if self.broken:
            raise InterfaceError("the answer to an earlier statement was not read to its end")
        self.broken = True
        try:
            self._sock.sendall(messages)
            answer = self._received()
        except OSError as e:
            raise InterfaceError(f"network error: {e}") from e
        self.broken = False
        return answer

    def _received(self) -> Answer:
        answer = Answer()
        data, at = self._sock.recv(_RECEIVE), 0
        while True:
            end = at + 5
            if end <= len(data):
                code, length = data[at], _INT.unpack_from(data, at + 1)[0]
                end = at + 1 + length
            if end > len(data):
                data, at = self._more(data[at:], end - at), 0
                continue
            if code == _DATA_ROW:
                answer.rows.append(data[at + 5 : end])
            elif code == _READY:
                self.in_transaction = data[at + 5] != _IDLE
                return answer
            else:
                _take(answer, code, data[at + 5 : end])
            at = end

    def _more(self, begun: bytes, needed: int) -> bytes:
        parts, size = [begun], len(begun)
        while size < needed:
            part = self._sock.recv(max(_RECEIVE, needed - size))
            if not part:
                raise InterfaceError("the server closed the connection")
            parts.append(part)
            size += len(part)
        return b"".join(parts)


def _take(answer: Answer, code: int, body: bytes) -> None:
    if code == _COMPLETE:
        last = body[:-1].rpartition(b" ")[2]
        answer.changed.append(int(last) if last.isdigit() else -1)
    elif code == _PARSED:
        answer.parsed += 1
    elif code == _COLUMNS:
        answer.columns = _columns(body)
    elif code == _ERROR and answer.error is None:
        fields = (f.decode("utf-8", "replace") for f in body.split(b"\0") if f)
        answer.error = DatabaseError({f[0]: f[1:] for f in fields})


def _columns(body: bytes) -> list[Column]:
    found, at = [], 2
    for _ in range(_SHORT.unpack_from(body)[0]):
        end = body.index(b"\0", at)
        kind = _COLUMN.unpack_from(body, end + 1)[2]
        found.append((body[at:end].decode(), decoder(kind)))
        at = end + 1 + _COLUMN.size
    return found


def values(row: bytes, decoders: tuple[Decoder, ...]) -> list[Any]:
    found: list[Any] = []
    at = 2
    for decode in decoders:
        length = _INT.unpack_from(row, at)[0]
        at += 4
        if length < 0:
            found.append(None)
        else:
            found.append(decode(row[at : at + length]))
            at += length
    return found
