"""A database that pauses: callers wait while it wakes, and idle connections do not keep it awake."""

import gc
import socket
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from det_controlplane.adapters.embedded_postgres import EmbeddedPostgres
from det_controlplane.db.engine import patient_connection
from det_controlplane.db.engine.connections import Pausing
from det_controlplane.db.engine.database import Database
from det_controlplane.db.engine.errors import DatabaseAsleep, DatabaseDown
from det_controlplane.db.engine.migrate import migrate
from sqlalchemy import text

from tests.support.processes import eventually
from tests.support.sleeping_database import (
    NOT_ADMITTED,
    STARTING_UP,
    WRONG_PASSWORD,
    SleepingDatabase,
    sleeping_database,
)

ONE = text("SELECT 1")
SESSIONS = text(
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    " AND application_name = 'determined-serverless'"
)


@pytest.fixture
def database(fresh_database: Database) -> Database:
    return fresh_database


@pytest.fixture
def sleeping(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[SleepingDatabase]:
    monkeypatch.setattr(patient_connection, "PAUSE_S", 0.01)
    with sleeping_database(database_url) as front:
        yield front


def test_caller_waits_for_a_silent_database_that_wakes(
    sleeping: SleepingDatabase,
) -> None:
    sleeping.wake_at_call(1)
    database = Database(sleeping.url, pausing=Pausing(wake_s=30))
    assert database.read(ONE) == [(1,)]
    database.dispose()


@pytest.mark.parametrize("refusal", [STARTING_UP, NOT_ADMITTED])
def test_caller_retries_while_the_database_starts(
    sleeping: SleepingDatabase, refusal: bytes
) -> None:
    sleeping.refuses, sleeping.refusal = True, refusal
    sleeping.wake_at_call(3)
    database = Database(sleeping.url, pausing=Pausing(wake_s=30))
    assert database.read(ONE) == [(1,)]
    assert sleeping.calls >= 4
    database.dispose()


@pytest.mark.parametrize("refuses", [False, True])
def test_error_after_the_wait_says_that_the_database_wakes(
    sleeping: SleepingDatabase, refuses: bool
) -> None:
    sleeping.refuses = refuses
    with pytest.raises(DatabaseAsleep, match="the database is waking up: try again in 5 seconds"):
        Database(sleeping.url, pausing=Pausing(wake_s=0.3)).read(ONE)


@pytest.mark.parametrize("refuses", [False, True])
def test_failed_connection_closes_its_socket(sleeping: SleepingDatabase, refuses: bool) -> None:
    sleeping.refuses = refuses
    before = _open_sockets()
    with pytest.raises(DatabaseAsleep) as error:
        Database(sleeping.url, pausing=Pausing(wake_s=0.3)).read(ONE)
    of_front = urlsplit(sleeping.url).port
    sockets = [s for s in _open_sockets() - before if s.getsockname()[1] != of_front]
    assert sockets == [], f"not even while its error is held: {error.value}"


def _open_sockets() -> set[socket.socket]:
    sockets = (item for item in gc.get_objects() if isinstance(item, socket.socket))
    return {item for item in sockets if item.fileno() >= 0 and item.family is socket.AF_INET}


def test_missing_database_is_reported_as_down() -> None:
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        url = f"postgresql://x@127.0.0.1:{unheard.getsockname()[1]}/x"
        with pytest.raises(DatabaseDown, match="does not answer") as error:
            Database(url, pausing=Pausing(wake_s=0.1)).read(ONE)
    assert not isinstance(error.value, DatabaseAsleep)


def test_wrong_database_name_is_reported_immediately(sleeping: SleepingDatabase) -> None:
    sleeping.awake.set()
    url = sleeping.url.rpartition("/")[0] + "/there-is-none"
    with pytest.raises(Exception, match="there-is-none"):
        Database(url, pausing=Pausing(wake_s=300)).read(ONE)
    assert sleeping.calls == 1


def test_a_database_that_never_admits_the_user_is_reported_after_the_wait(
    sleeping: SleepingDatabase,
) -> None:
    sleeping.refuses, sleeping.refusal = True, NOT_ADMITTED
    with pytest.raises(DatabaseAsleep, match="waking up, or does not admit this user"):
        Database(sleeping.url, pausing=Pausing(wake_s=0.3)).read(ONE)


def test_wrong_password_is_reported_immediately(sleeping: SleepingDatabase) -> None:
    sleeping.refuses, sleeping.refusal = True, WRONG_PASSWORD
    with pytest.raises(Exception, match="password authentication failed"):
        Database(sleeping.url, pausing=Pausing(wake_s=300)).read(ONE)
    assert sleeping.calls == 1


def test_a_migration_waits_for_a_database_that_wakes(sleeping: SleepingDatabase) -> None:
    sleeping.refuses = True
    sleeping.wake_at_call(2)
    assert migrate(sleeping.url, wake_s=30) == ()


def test_server_closes_idle_connections(database: Database, database_url: str) -> None:
    resting = Database(database_url, pausing=Pausing(idle_s=0.2))
    resting.read(ONE)
    assert database.read(SESSIONS)[0][0] == 1
    assert eventually(lambda: database.read(SESSIONS)[0][0] == 0)
    assert resting.read(ONE) == [(1,)], "the next caller gets another connection"
    resting.dispose()


SANDBOXES, CONNECTIONS = 200, 64


@pytest.fixture
def small() -> Iterator[str]:
    """A database server that takes as many connections as `det deploy local` lets it."""
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedPostgres(Path(folder), throwaway=True) as server,
    ):
        yield server.url()


def test_two_hundred_sandboxes_share_a_small_database(
    small: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes keep their connection after an answer, except the last connections of the server. Others wait for a
    free one."""
    monkeypatch.setattr(patient_connection, "PAUSE_S", 0.2)

    def sandbox() -> Database:
        return Database(small, pool_size=1, pausing=Pausing(idle_s=600, wake_s=240))

    def answer(database: Database) -> int:
        number = int(database.read(text("SELECT count(pg_sleep(0.2))"))[0][0])
        database.rest()
        return number

    with ExitStack() as alive, ThreadPoolExecutor(SANDBOXES) as threads:
        sandboxes = [sandbox() for _ in range(SANDBOXES)]
        for each in sandboxes:
            alive.callback(each.dispose)
        assert list(threads.map(answer, sandboxes)) == [1] * SANDBOXES
        late = sandbox()
        alive.callback(late.dispose)
        session_count = late.read(SESSIONS)[0][0]
        # How many depends on how many answer at once, which a busy machine decides.
        assert 0 < session_count < CONNECTIONS - 10, "not all reconnect, and some room is left"


def test_database_without_free_connections_is_reported_as_temporary(
    small: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patient_connection, "PAUSE_S", 0.01)
    with ExitStack() as stack:
        for _ in range(CONNECTIONS):
            database = Database(small, pool_size=1)
            stack.callback(database.dispose)
            database.read(ONE)
        late = Database(small, pool_size=1, pausing=Pausing(wake_s=0.1))
        stack.callback(late.dispose)
        with pytest.raises(DatabaseAsleep, match="all connections of the database are taken: try"):
            late.read(ONE)
