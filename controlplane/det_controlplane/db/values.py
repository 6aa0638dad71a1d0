"""Values on their way to PostgreSQL and back, as its text format has them."""

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

from pg8000.converters import PG_TYPES, PY_TYPES, make_param, timestamptz_in

Decoder = Callable[[bytes], Any]


def _time(written: bytes) -> Any:
    """A tenth of the cost of pg8000's own reading, which parses a format for each value."""
    text = written.decode()
    try:
        return datetime.fromisoformat(text + ":00" if text[-3] in "+-" else text)
    except ValueError:  # infinity, years beyond 9999, and fractions that Python 3.10 does not read
        return timestamptz_in(text)


def _json(written: bytes) -> Any:
    return json.loads(written.decode())


def _bytes(written: bytes) -> bytes:
    return bytes.fromhex(written[2:].decode())


_DECODERS: dict[int, Decoder] = {
    16: b"t".__eq__,  # boolean
    17: _bytes,
    20: int,  # bigint
    21: int,  # smallint
    23: int,  # integer
    25: bytes.decode,  # text
    114: _json,
    701: float,  # double precision
    1043: bytes.decode,  # varchar
    1184: _time,  # timestamptz
    2950: lambda written: UUID(written.decode()),
    3802: _json,  # jsonb
}


def decoder(type_oid: int) -> Decoder:
    """For a type of PostgreSQL, by its number in the catalogue."""
    found = _DECODERS.get(type_oid)
    if found is None:
        read: Callable[[str], Any] = PG_TYPES.get(type_oid, str)
        found = _DECODERS[type_oid] = lambda written: read(written.decode())
    return found


_ENCODERS: dict[type, Callable[[Any], bytes]] = {
    str: str.encode,
    int: b"%d".__mod__,
    bool: lambda value: b"true" if value else b"false",
    float: lambda value: str(value).encode(),
    bytes: lambda value: b"\\x" + value.hex().encode(),
    datetime: lambda value: value.isoformat().encode(),
    UUID: lambda value: str(value).encode(),
}


def encoded(value: Any) -> bytes | None:
    """A parameter; None is NULL."""
    if value is None:
        return None
    encode = _ENCODERS.get(type(value))
    if encode is not None:
        return encode(value)
    written: str = make_param(PY_TYPES, value)
    return written.encode()
