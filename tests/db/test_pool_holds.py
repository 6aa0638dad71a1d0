"""Pools are held by operators and by machines that do not join; not by rows of budgets of earlier versions."""

from datetime import datetime, timedelta, timezone

import pytest
from det_controlplane.db import schema
from det_controlplane.db.engine.database import Database
from det_controlplane.db.machines import machine_views, pool_holds
from sqlalchemy import update

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
SOON = NOW + timedelta(minutes=15)


def said(database: Database, at: datetime = NOW) -> str | None:
    with database.begin() as tx:
        response = machine_views.holds(tx, at).get("default")
    return None if response is None else str(response["sentence"])


def hold(database: Database, by: str, until: datetime | None, at: datetime = NOW) -> None:
    with database.begin() as tx:
        pool_holds.hold(tx, "default", by, at, until=until)


@pytest.mark.parametrize(
    ("first", "second", "stays"),
    [
        ("operator", "no-shows", "operator"),
        ("no-shows", "operator", "operator"),
        ("operator", "again", "again"),
    ],
)
def test_longer_hold_of_a_pool_replaces_the_shorter(
    database: Database, first: str, second: str, stays: str
) -> None:
    for by in (first, second):
        hold(database, by, SOON if by == "no-shows" else None)
    assert said(database) == stays


def test_expired_hold_is_replaced_by_a_new_one(database: Database) -> None:
    hold(database, "no-shows", SOON)
    later = SOON + timedelta(minutes=1)
    assert said(database, later) is None
    hold(database, "again", later + timedelta(minutes=15), later)
    assert said(database, later) == "again"


def test_budget_row_of_an_earlier_version_does_not_hold_a_pool(database: Database) -> None:
    hold(database, "operator", None)
    with database.begin() as tx:
        tx.execute(update(schema.pool_holds).values(by_operator=False, sentence="spent"))
        assert pool_holds.every(tx, NOW) == {}
    assert said(database) is None
    hold(database, "no-shows", SOON)
    assert said(database) == "no-shows"
