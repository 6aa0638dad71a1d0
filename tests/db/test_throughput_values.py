"""Values come out of the database as they went in, read the quick way."""

import math
from datetime import datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest
from det_controlplane.db.engine import Database
from det_controlplane.db.sql import text

_TIME = text("SELECT cast(:value AS timestamptz)")
_SHOWN_IN = text("SET LOCAL timezone = 'Asia/Kolkata'")


ELSEWHERE = timezone(timedelta(hours=-9, minutes=-30))
VALUES = (
    ("text", "naïve 'quoted' \\ text\n"),
    ("text", ""),
    ("bigint", -(2**63)),
    ("boolean", False),
    ("double precision", 1e-320),
    ("double precision", -math.inf),
    ("bytea", bytes(range(256))),
    ("uuid", UUID(int=7)),
    ("timestamptz", datetime(1999, 12, 31, 23, 59, 59, 999999, tzinfo=ELSEWHERE)),
    ("integer[]", [3, -1]),
    ("text[]", ["a,b", 'c"d', "{}", "NULL", ""]),
    ("text", None),
)


@pytest.mark.parametrize(("kind", "value"), VALUES)
def test_a_value_comes_back_as_it_was(database: Database, kind: str, value: Any) -> None:
    assert database.read(text(f"SELECT cast(:value AS {kind})"), {"value": value})[0][0] == value


@pytest.mark.parametrize("microsecond", [0, 1, 500000, 120000, 123456])
def test_times_keep_their_microseconds(database: Database, microsecond: int) -> None:
    value = datetime(2026, 11, 20, 23, 59, 58, microsecond, tzinfo=timezone.utc)
    assert database.read(_TIME, {"value": value})[0][0] == value


def test_times_are_understood_in_any_zone_of_the_server(database: Database) -> None:
    value = datetime(2026, 11, 20, 1, 2, 3, 450000, tzinfo=timezone.utc)
    with database.begin() as tx:
        tx.run(_SHOWN_IN)
        found = tx.value(_TIME, {"value": value})
    assert found == value
    assert found.utcoffset() == timedelta(hours=5, minutes=30)


def test_a_time_without_end_is_still_a_value(database: Database) -> None:
    assert database.read(_TIME, {"value": "infinity"})[0][0] == "infinity"
