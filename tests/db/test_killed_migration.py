"""A migration in a process that dies: its changes are rolled back, and the next migration does all of them."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from det_controlplane.db.engine.connections import plain_engine
from det_controlplane.db.engine.migrate import HEAD, migrate, revision_of
from sqlalchemy import text

from tests.support.processes import eventually
from tests.support.watched_database import watched_database

PROGRAM = "import sys; from det_controlplane.db.engine.migrate import migrate; migrate(sys.argv[1])"
TABLES = text("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")

IsIt = Callable[[int, str], bool]  # of a statement's number and kind


def migrate_and_die(url: str, is_it: IsIt, *, arrives: bool = False) -> list[str]:
    """Migrate in a process that dies at a statement, which may arrive. Return the kinds of its statements."""
    messages: list[str] = []
    migrating: list[subprocess.Popen[bytes]] = []

    def lets(kind: str) -> bool:
        messages.append(kind)
        if not is_it(len(messages), kind):
            return True
        migrating[0].kill()
        return arrives

    with watched_database(url, lets) as front:
        migrating.append(subprocess.Popen([sys.executable, "-c", PROGRAM, front]))
        migrating[0].wait(120)
    return messages


@pytest.fixture
def look(empty_database_url: str) -> Any:
    engine = plain_engine(empty_database_url)
    yield engine.connect
    engine.dispose()


@pytest.mark.parametrize(
    "is_it",
    [lambda n, _: n == 10, lambda n, _: n == 16, lambda _, kind: kind == "commit"],
    ids=["at its beginning", "in the middle", "before its commit"],
)
def test_interrupted_migration_is_rolled_back_and_repeated(
    empty_database_url: str, look: Any, is_it: IsIt
) -> None:
    messages = migrate_and_die(empty_database_url, is_it)
    assert len(messages) >= 10, "it died while it was at work"
    with look() as connection:
        assert connection.scalar(TABLES) == 0
    assert migrate(empty_database_url)[-1] == HEAD
    with look() as connection:
        assert revision_of(connection) == HEAD


def test_migration_killed_after_its_commit_is_not_repeated(
    empty_database_url: str, look: Any
) -> None:
    migrate_and_die(empty_database_url, lambda _, kind: kind == "commit", arrives=True)
    with look() as connection:
        assert eventually(lambda: connection.scalar(TABLES) > 0)
    assert migrate(empty_database_url) == ()
