"""Long pages come in parts that make the same answer."""

import json
from collections.abc import Iterable
from typing import Any

import pytest
from det_controlplane.core.paging import Page, Sort
from det_controlplane.db import schema
from det_controlplane.db.engine import pages
from det_controlplane.db.engine.database import Database
from det_controlplane.db.engine.pages import Collection
from det_controlplane.db.people import users
from det_controlplane.db.trials import trial_pages, workloads
from det_controlplane.services.context import Context
from det_controlplane.services.experiments import listing
from sqlalchemy import func, select, text

from tests.support.searching import SINGLE, running, validate

ALL = Page(limit=-1)
_USERS = text("""
    INSERT INTO users (username, admin)
    SELECT 'user-' || n, n % 2 = 0 FROM generate_series(1, :count) n
""")


def joined(parts: Iterable[str]) -> Any:
    """Return the answer without values that change every second."""
    answer = json.loads("".join(parts))
    for experiment in answer.get("experiments", ()):
        del experiment["duration"]
    return answer


@pytest.fixture
def made(ctx: Context) -> Database:
    for _ in range(7):
        running(ctx, SINGLE)
    for batches in range(1, 6):
        validate(ctx, 1, batches, 1 / batches)
    return ctx.db


PAGES = [
    ALL, Page(2, -1), Page(-4, -1), Page(1, 5), Page(-6, 5), Page(6, -1), Page(9, -1), Page(limit=-2),
]  # fmt: skip
SORTS = [Sort(), Sort(descending=True), Sort("SORT_BY_NAME", True), Sort("SORT_BY_END_TIME")]


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("sort", SORTS)
def test_parts_combine_to_the_complete_page(
    made: Database, ctx: Context, monkeypatch: pytest.MonkeyPatch, page: Page, sort: Sort
) -> None:
    def found() -> list[str]:
        return list(listing.experiments(ctx, page, sort, {"visible": True}))

    whole = joined(found())
    monkeypatch.setattr(pages, "PART", 3)
    parts = found()
    pagination = whole["pagination"]
    rows = pagination["endIndex"] - pagination["startIndex"]
    assert len(parts) == (1 if rows <= 3 else 2 + -(-rows // 3))
    assert joined(parts) == whole


@pytest.mark.parametrize("metric", ["", "loss"])
def test_page_in_parts_is_sorted_by_metric(
    made: Database, monkeypatch: pytest.MonkeyPatch, metric: str
) -> None:
    options = workloads.Options("", False, False, "validation")
    sort = Sort(Sort.BY_METRIC, True, metric) if metric else Sort(descending=True)

    def found() -> list[str]:
        return list(workloads.page(made, 1, ALL, sort, options))

    (whole,) = found()
    monkeypatch.setattr(pages, "PART", 2)
    assert len(found()) == 5
    assert joined(found()) == json.loads(whole)


def test_rows_deleted_between_parts_are_left_out(
    made: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "PART", 1)
    with made.begin() as tx:
        tx.execute(_USERS, {"count": 4})
    parts = users.listed(made, ALL, Sort("SORT_BY_ID"), {})
    before = next(parts)
    with made.begin() as tx:
        tx.execute(text("DELETE FROM users WHERE username IN ('user-1', 'user-4')"))
    rows = joined([before, *parts])
    assert [u["username"] for u in rows["users"]][-2:] == ["user-2", "user-3"]


def test_parts_have_equal_numbers_of_rows(made: Database) -> None:
    with made.begin() as tx:
        tx.execute(_USERS, {"count": 3500})
    parts = list(users.listed(made, ALL, Sort("SORT_BY_USER_NAME"), {}))
    assert [part.count('"username"') for part in parts] == [0, 1000, 1000, 1000, 502, 0]
    assert len(joined(parts)["users"]) == 3502


def test_a_short_page_is_one_statement(made: Database) -> None:
    (whole,) = trial_pages.listed(made, ALL, Sort(), 1, [])
    assert len(json.loads(whole)["trials"]) == 1


@pytest.mark.parametrize("page", [ALL, Page(2, 100), Page(-4, -1)])
def test_parts_with_long_rows_have_fewer_rows(
    made: Database, ctx: Context, monkeypatch: pytest.MonkeyPatch, page: Page
) -> None:
    """Bound a page of experiments by bytes: long configurations of other users do not fill its reader's memory."""
    with made.begin() as tx:
        tx.execute(text("UPDATE experiments SET notes = repeat('x', 100000) WHERE id > 2"))

    def found() -> list[str]:
        return list(listing.experiments(ctx, page, Sort(), {"visible": True}))

    (whole,) = found()
    monkeypatch.setattr(pages, "PART_BYTES", 150_000)
    parts = found()
    assert joined(parts) == joined([whole])
    assert len(parts) > 3
    # A part ends with the row that goes beyond the bound.
    assert max(map(len, parts)) < 150_000 + 110_000


@pytest.mark.parametrize("offset", [12, -5])
def test_rows_before_a_page_are_skipped_without_writing_them(
    database: Database, offset: int
) -> None:
    with database.begin() as tx:
        tx.execute(_USERS, {"count": 20})
        tx.execute(text("CREATE SEQUENCE written"))
    id = schema.users.c.id
    row = func.json_build_object("id", id, "number", func.nextval("written"))
    collection = Collection("users", select(row), {"SORT_BY_ID": id})
    answer = joined(pages.find(database, collection, Page(offset, 3), Sort(), {}))
    assert [user["number"] for user in answer["users"]] == [1, 2, 3]
