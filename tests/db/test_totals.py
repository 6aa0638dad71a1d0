"""Totals of long listings are counted once in a while, and corrected by the page that is shown."""

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
from det_controlplane.core.paging import Page, Sort
from det_controlplane.db.engine import pages
from det_controlplane.db.engine.database import Database
from det_controlplane.db.people import users
from sqlalchemy import event, text

_ADD = text(
    "INSERT INTO users (username) SELECT 'person-' || n"
    " FROM generate_series(cast(:first AS integer), cast(:last AS integer)) n"
)
_DELETE = text("DELETE FROM users WHERE username LIKE 'person-%'")


@pytest.fixture
def counts(database: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Return the statements that counted a listing, where 5 rows are a long one."""
    monkeypatch.setattr("det_controlplane.db.engine.database.LONG_TOTAL", 5)
    statements: list[str] = []

    def note(*arguments: object) -> None:
        statement = str(arguments[2])
        if "AS total" in statement and "NULL AS total" not in statement:
            statements.append(statement)

    event.listen(database.engine, "before_cursor_execute", note)
    yield statements
    event.remove(database.engine, "before_cursor_execute", note)


def add(database: Database, first: int, last: int) -> None:
    with database.begin() as tx:
        tx.execute(_ADD, {"first": first, "last": last})


def listed(database: Database, page: Page) -> tuple[int, int]:
    """Return the rows of a page and the total."""
    answer = json.loads("".join(pages.find(database, users._LISTED, page, Sort(), {})))
    return len(answer["users"]), answer["pagination"]["total"]


def test_long_listing_is_counted_once_for_several_pages(
    database: Database, counts: list[str]
) -> None:
    add(database, 1, 20)
    rows, total = listed(database, Page(limit=4))
    assert (rows, total) == (4, listed(database, Page(offset=4, limit=4))[1])
    assert len(counts) == 1


def test_short_listing_is_counted_for_each_page(
    database: Database, counts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("det_controlplane.db.engine.database.LONG_TOTAL", 100)
    before = listed(database, Page(limit=1))[1]
    add(database, 1, 3)
    assert listed(database, Page(limit=1))[1] == before + 3


def test_long_listing_is_counted_again_after_some_seconds(
    database: Database, counts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("det_controlplane.db.engine.database.TOTALS_KEPT_S", 0.0)
    add(database, 1, 10)
    before = listed(database, Page(limit=4))[1]
    add(database, 11, 13)
    assert listed(database, Page(limit=4))[1] == before + 3


def test_the_last_page_corrects_an_earlier_total(database: Database, counts: list[str]) -> None:
    add(database, 1, 10)
    _, total = listed(database, Page(limit=4))
    add(database, 11, 13)
    rows, corrected = listed(database, Page(offset=total, limit=100))
    assert (rows, corrected) == (3, total + 3)
    assert len(counts) == 1


def test_an_empty_page_corrects_a_total_that_is_too_large(
    database: Database, counts: list[str]
) -> None:
    add(database, 1, 10)
    _, total = listed(database, Page(limit=4))
    with database.begin() as tx:
        tx.execute(_DELETE)
    assert listed(database, Page(offset=total - 10, limit=5)) == (0, total - 10)


def test_page_from_the_end_has_an_exact_total(database: Database, counts: list[str]) -> None:
    add(database, 1, 10)
    _, total = listed(database, Page(limit=4))
    add(database, 11, 13)
    assert listed(database, Page(offset=-2, limit=5)) == (2, total + 3)


@pytest.mark.parametrize(
    ("page", "total"),
    [
        (Page(limit=2), 6),  # one more than the bound
        (Page(offset=8, limit=2), 11),  # one more than the end of the page
        (Page(offset=18, limit=50), 20),  # the rows end within the page
    ],
)
def test_a_bounded_listing_counts_little_beyond_the_page(
    database: Database, page: Page, total: int
) -> None:
    add(database, 1, 20)
    persons = replace(
        users._LISTED, rows=users._LISTED.rows.where(text("username LIKE 'person-%'")), counted=5
    )
    answer = json.loads("".join(pages.find(database, persons, page, Sort(), {})))
    assert answer["pagination"]["total"] == total
