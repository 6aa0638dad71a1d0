"""What holds a pool: an operator, a spent budget, machines that do not join."""

from datetime import datetime, timedelta, timezone

import pytest
from det_controlplane.db import machine_views, pool_holds
from det_controlplane.db.engine import Database

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
SOON = NOW + timedelta(minutes=15)


def said(database: Database, at: datetime = NOW) -> str | None:
    with database.begin() as tx:
        found = machine_views.holds(tx, at).get("default")
    return None if found is None else str(found["sentence"])


def hold(database: Database, by: str, until: datetime | None, at: datetime = NOW) -> None:
    with database.begin() as tx:
        pool_holds.hold(tx, "default", by, at, until=until, by_operator=by == "operator")


@pytest.mark.parametrize(
    ("first", "second", "stays"),
    [
        ("operator", "budget", "operator"),
        ("operator", "no-shows", "operator"),
        ("budget", "no-shows", "budget"),
        ("no-shows", "budget", "budget"),
        ("no-shows", "operator", "operator"),
        ("budget", "operator", "operator"),
    ],
)
def test_what_holds_a_pool_for_longer_stays(
    database: Database, first: str, second: str, stays: str
) -> None:
    for by in (first, second):
        hold(database, by, SOON if by == "no-shows" else None)
    assert said(database) == stays


def test_a_hold_that_has_passed_gives_way(database: Database) -> None:
    hold(database, "no-shows", SOON)
    later = SOON + timedelta(minutes=1)
    assert said(database, later) is None
    hold(database, "again", later + timedelta(minutes=15), later)
    assert said(database, later) == "again"


def test_a_budget_releases_its_own_hold_and_an_operator_any(database: Database) -> None:
    for by, until in (("no-shows", SOON), ("operator", None)):
        hold(database, by, until)
        with database.begin() as tx:
            assert not pool_holds.release(tx, "default", by_operator=False)
        assert said(database) == by
    with database.begin() as tx:
        assert pool_holds.release(tx, "default")
    assert said(database) is None
