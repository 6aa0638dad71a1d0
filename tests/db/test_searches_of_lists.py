"""Lists search names, states and tasks by indexes; a database without trigrams searches names without an index."""

import json
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import pytest
from det_controlplane.core.lifecycle.task import TaskKind
from det_controlplane.core.paging import Page, Sort
from det_controlplane.db.engine import pages
from det_controlplane.db.engine.connections import plain_engine
from det_controlplane.db.engine.database import Database
from det_controlplane.db.engine.migrate import HEAD, migrate, revision_of
from det_controlplane.db.experiments import experiment_pages
from det_controlplane.db.tasks import tasks
from det_controlplane.services.context import Context
from det_controlplane.services.experiments import creation
from sqlalchemy import event, text

from tests.support.searching import OWNER, SINGLE

_PLAIN = (
    "CREATE ROLE plain_user LOGIN",
    "REVOKE ALL ON DATABASE {name} FROM PUBLIC",
    "GRANT CONNECT, TEMPORARY ON DATABASE {name} TO plain_user",
    "GRANT ALL ON SCHEMA public TO plain_user",
)
_INDEX = text("SELECT to_regclass('experiments_by_name') IS NOT NULL")


def create(ctx: Context, name: str) -> None:
    creation.create(ctx, OWNER, creation.Submission(config=SINGLE.replace("one", json.dumps(name))))


def names(ctx: Context, **filters: Any) -> list[str]:
    answer = json.loads("".join(experiment_pages.find(ctx.db, Page(), Sort(), filters)))
    return [experiment["name"] for experiment in answer["experiments"]]


def plan(database: Database, reader: Any) -> str:
    """Return the plan of the statement that `read` executes first, without scans of whole tables."""
    statements: list[tuple[str, Any]] = []

    def note(*arguments: Any) -> None:
        statements.append((arguments[2], arguments[3]))

    event.listen(database.engine, "before_cursor_execute", note)
    try:
        reader()
    finally:
        event.remove(database.engine, "before_cursor_execute", note)
    statement, parameters = statements[0]
    with database.begin() as tx:
        tx.execute(text("SET LOCAL enable_seqscan = off"))
        tx.execute(text("SET LOCAL enable_sort = off"))
        explained = tx.exec_driver_sql(f"EXPLAIN {statement}", parameters)
        return "\n".join(explained.scalars())


@pytest.mark.parametrize(
    ("searched", "expected"),
    [
        ("100%", ["loss 100% of it"]),
        ("_ONE", ["as_one"]),
        ("\\", ["back\\slash"]),
        ("OF IT", ["loss 100% of it", "loss 1000 of it"]),
        ("", ["loss 100% of it", "loss 1000 of it", "as_one", "as one", "back\\slash"]),
    ],
)
def test_special_characters_in_a_searched_name_match_literally(
    ctx: Context, searched: str, expected: list[str]
) -> None:
    for name in ("loss 100% of it", "loss 1000 of it", "as_one", "as one", "back\\slash"):
        create(ctx, name)
    assert names(ctx, name=searched) == expected


@pytest.mark.parametrize(
    "page", [Page(), Page(0, 2), Page(1, 2), Page(7, 2), Page(-1, 2), Page(0, -2)]
)
def test_search_evaluated_once_has_the_pages_of_other_lists(ctx: Context, page: Page) -> None:
    for name in ("one b", "two", "one a", "One b", "one c"):
        create(ctx, name)
    plain = replace(experiment_pages._LISTED, searches=frozenset())
    for sort in (Sort(by, descending) for by in plain.orders for descending in (False, True)):
        expected, shown = (
            json.loads("".join(pages.find(ctx.db, collection, page, sort, {"name": "one"})))
            for collection in (plain, experiment_pages._LISTED)
        )
        assert shown["pagination"] == expected["pagination"]
        assert shown["pagination"]["total"] == 4
        assert _ids(shown) == _ids(expected), sort


def _ids(answer: dict[str, Any]) -> list[int]:
    return [experiment["id"] for experiment in answer["experiments"]]


def test_search_for_names_uses_an_index(ctx: Context) -> None:
    assert "experiments_by_name" in plan(ctx.db, lambda: names(ctx, name="model 500"))


def test_states_that_are_not_stored_match_no_experiment(ctx: Context) -> None:
    create(ctx, "waits")
    assert names(ctx, states=["QUEUED"]) == []
    assert names(ctx, states=["QUEUED", "ACTIVE"]) == ["waits"]


def test_list_of_tensorboards_uses_an_index(ctx: Context) -> None:
    kind = TaskKind.TENSORBOARD
    result = plan(ctx.db, lambda: list(tasks.listed(ctx.db, kind, Page(), Sort(), {})))
    assert "tasks_by_kind" in result


def test_migration_skips_the_index_if_extensions_are_forbidden(
    empty_database_url: str,
) -> None:
    admin = plain_engine(empty_database_url)
    with admin.begin() as connection:
        name = connection.execute(text("SELECT quote_ident(current_database())")).scalar_one()
        for statement in _PLAIN:
            connection.execute(text(statement.format(name=name)))
    try:
        user = urlsplit(empty_database_url).username
        migrate(empty_database_url.replace(f"//{user}", "//plain_user"))
        with admin.connect() as connection:
            assert revision_of(connection) == HEAD
            assert not connection.execute(_INDEX).scalar_one()
    finally:
        with admin.begin() as connection:
            connection.execute(text("DROP OWNED BY plain_user"))
            connection.execute(text("DROP ROLE plain_user"))
        admin.dispose()
