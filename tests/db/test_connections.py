"""Connections to PostgreSQL: kept state, lost state, and separation of transactions."""

import logging
import math
import socket
import ssl
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from uuid import UUID

import certifi
import pytest
from det_controlplane.db.engine import connections, driver
from det_controlplane.db.engine.connections import driver_url, pg8000_arguments
from det_controlplane.db.engine.database import Database
from det_controlplane.db.engine.errors import (
    BadUrl,
    DatabaseDown,
    QueryFailed,
    TryAgain,
    Unstorable,
    Violated,
)
from det_controlplane.services.logs.master_log import StoredLog
from sqlalchemy import text

NUMBERS = text("SELECT n FROM generate_series(1, cast(:most AS integer)) AS n")
TIME = text("SELECT cast(:value AS timestamptz)")
INSERT = text("INSERT INTO pools (name) VALUES (:name)")
NAMES = text("SELECT name FROM pools ORDER BY name")
BACKEND = text("SELECT pg_backend_pid() AS pid")
BACKENDS = text("SELECT pid FROM pg_stat_activity WHERE pid = ANY(cast(:pids AS integer[]))")
LINES = text("SELECT message FROM master_logs")
TERMINATE = text("SELECT pg_terminate_backend(cast(:pid AS integer))")


@pytest.fixture
def database(fresh_database: Database) -> Database:
    return fresh_database


def names(database: Database) -> list[str]:
    return [r.name for r in database.read(NAMES)]


@pytest.mark.parametrize(
    ("type", "value"),
    [
        ("integer", -7),
        ("bigint", 2**62),
        ("double precision", -0.1),
        ("numeric", 12),
        ("boolean", True),
        ("boolean", False),
        ("text", "Grüße, 世界 ' \\ \n"),
        ("text", ""),
        ("bytea", bytes(range(256))),
        ("uuid", UUID(int=5)),
        ("timestamptz", datetime(2026, 2, 3, 4, 5, 6, 789, tzinfo=timezone.utc)),
        ("timestamptz", datetime(2026, 2, 3, 4, 5, 6, 120000, tzinfo=timezone.utc)),
        (
            "timestamptz",
            datetime(1999, 12, 31, 23, 59, 59, tzinfo=timezone(timedelta(hours=-9, minutes=-30))),
        ),
        ("double precision", -math.inf),
        ("integer[]", [1, 2, 3]),
        ("text[]", ['a,"b', "", "c d"]),
        ("integer", None),
    ],
)
def test_values_are_read_back_unchanged(database: Database, type: str, value: Any) -> None:
    statement = text(f"SELECT cast(:value AS {type}) AS value")
    for _ in range(2):  # described, and known
        assert database.read(statement, {"value": value})[0].value == value


def test_a_large_answer_arrives_whole(database: Database) -> None:
    text_of = text("SELECT repeat('x', cast(:size AS integer)) AS body")
    assert len(database.read(text_of, {"size": 3_000_001})[0].body) == 3_000_001
    assert [r.n for r in database.read(NUMBERS, {"most": 40_000})] == list(range(1, 40_001))


def test_failed_transaction_does_not_affect_the_next_transaction(database: Database) -> None:
    def insert(*expected: str) -> None:
        with database.begin() as tx:
            for name in expected:
                tx.execute(INSERT, {"name": name})
            raise ValueError

    with pytest.raises(Violated):
        insert("a", "a")
    with pytest.raises(ValueError):
        insert("b")
    with database.begin() as tx:
        tx.execute(INSERT, {"name": "c"})
    assert names(database) == ["c"]


def test_invalid_statement_fails_each_time_with_its_error(database: Database) -> None:
    for _ in range(2):
        with pytest.raises(QueryFailed, match="no_such_table"):
            database.read(text("SELECT * FROM no_such_table"))
    assert database.read(NUMBERS, {"most": 1})[0].n == 1


def test_rejects_statements_with_too_many_values(database: Database) -> None:
    names = ", ".join(f":p{n}" for n in range(65_536))
    with pytest.raises(Unstorable, match="65536 values"), database.begin() as tx:
        tx.execute(text(f"SELECT 1 WHERE 1 IN ({names})"), {f"p{n}": n for n in range(65_536)})
    with database.begin() as tx:
        assert tx.execute(text("SELECT 1")).scalar() == 1


def test_connection_runs_more_statements_than_its_cache_holds(database: Database) -> None:
    many = [text(f"SELECT {n} AS n") for n in range(700)]
    with database.begin() as tx:
        assert [tx.execute(s).scalar() for s in many] == list(range(700))
        assert [tx.execute(s).scalar() for s in many] == list(range(700))


def test_prepared_statement_works_at_the_second_try_after_a_migration(database: Database) -> None:
    query = text("SELECT * FROM storages")
    assert database.read(query) == []
    with database.begin() as tx:
        tx.execute(text("ALTER TABLE storages ADD COLUMN label text"))
    with pytest.raises(TryAgain):
        database.read(query)
    assert database.read(query) == []


def test_connections_closed_by_the_server_are_replaced_before_use(
    database: Database,
) -> None:
    with database.begin() as one, database.begin() as other:
        pids = [one.execute(BACKEND).scalar(), other.execute(BACKEND).scalar()]
    watcher = Database(database.url)
    for pid in pids:
        watcher.read(TERMINATE, {"pid": pid})
    while watcher.read(BACKENDS, {"pids": pids}):
        time.sleep(0.01)
    watcher.dispose()
    with database.begin() as tx:
        assert tx.execute(BACKEND).scalar() not in pids


def test_lost_connection_fails_its_transaction_and_is_replaced(
    database: Database,
) -> None:
    watcher = Database(database.url)

    def go_on_after_the_end() -> None:
        with database.begin() as tx:
            watcher.read(TERMINATE, {"pid": tx.execute(BACKEND).scalar()})
            while tx.execute(NUMBERS, {"most": 1}).scalar():
                pass

    with pytest.raises(DatabaseDown):
        go_on_after_the_end()
    watcher.dispose()
    assert database.read(NUMBERS, {"most": 1})[0].n == 1


class ForgetfulNetwork:
    """Forward connections to the server. Connections from before `forget` are silently dropped."""

    def __init__(self, url: str, folder: Path) -> None:
        self._server: str = pg8000_arguments(driver_url(url))["unix_sock"]
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(folder / "server"))
        self._listening.listen()
        self.url = url.replace(self._server, str(folder / "server"))
        self._open: list[socket.socket] = []
        self._lost: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def forget(self) -> None:
        self._lost.update(self._open)

    def close(self) -> None:
        for each in (self._listening, *self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                far = socket.socket(socket.AF_UNIX)
                far.connect(self._server)
                self._open += [near, far]
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=self._carry, args=pair, daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if source not in self._lost:
                    target.sendall(data)


def test_idle_connection_is_checked_before_use(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "LONG_REST_S", 0.0)
    monkeypatch.setattr(driver, "PATIENCE_S", 60.0)
    network = ForgetfulNetwork(database.url, tmp_path)
    through = Database(network.url)
    first = through.read(BACKEND)[0].pid
    assert through.read(BACKEND)[0].pid == first
    network.forget()
    monkeypatch.setattr(driver, "PATIENCE_S", 0.2)
    assert through.read(BACKEND)[0].pid != first
    through.dispose()
    network.close()


def test_connection_with_an_unread_response_is_not_reused(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(BaseException):
        pass

    def interrupted(context: Any) -> None:
        raise Interrupted

    def interrupt() -> None:
        with database.begin() as tx:
            used.append(tx.execute(BACKEND).scalar_one())
            monkeypatch.setattr(tx.connection.driver_connection, "handle_messages", interrupted)
            tx.execute(NUMBERS, {"most": 1})

    used: list[int] = []
    with pytest.raises(Interrupted):
        interrupt()
    assert database.read(BACKEND)[0].pid not in used


def test_times_are_understood_in_any_zone_of_the_server(database: Database) -> None:
    value = datetime(2026, 11, 20, 1, 2, 3, 450000, tzinfo=timezone.utc)
    with database.begin() as tx:
        tx.execute(text("SET LOCAL timezone = 'Asia/Kolkata'"))
        matching_time = tx.execute(TIME, {"value": value}).scalar_one()
    assert matching_time == value
    assert matching_time.utcoffset() == timedelta(hours=5, minutes=30)


def test_infinite_time_is_read_as_infinity(database: Database) -> None:
    assert database.read(TIME, {"value": "infinity"})[0][0] == "infinity"


def test_statements_outside_a_transaction_are_committed_one_by_one(database: Database) -> None:
    query = text("SELECT pg_current_xact_id_if_assigned(), now()")
    with database.autocommit() as connection:
        connection.execute(INSERT, {"name": "a"})
        first = connection.execute(query).one()
        assert names(database) == ["a"]
        second = connection.execute(query).one()
    assert (first[0], second[0]) == (None, None)
    assert first[1] < second[1]


def test_connection_without_a_transaction_can_begin_one_later(database: Database) -> None:
    with database.autocommit() as connection:
        pid = connection.execute(BACKEND).scalar_one()
    with database.begin() as tx:
        assert tx.execute(BACKEND).scalar_one() == pid
        tx.execute(INSERT, {"name": "a"})
        assert names(database) == []


def test_transaction_continues_after_a_value_that_cannot_be_encoded(database: Database) -> None:
    with database.begin() as tx:
        tx.execute(INSERT, {"name": "a"})
        with pytest.raises(UnicodeEncodeError):
            tx.execute(INSERT, {"name": "\ud800"})
    assert names(database) == ["a"]


def test_encoding_errors_leave_at_most_one_prepared_statement(database: Database) -> None:
    with database.begin() as tx:
        for _ in range(3):
            with pytest.raises(UnicodeEncodeError):
                tx.execute(text("SELECT cast(:x AS text)"), {"x": "\ud800"})
        count = tx.execute(
            text("SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%AS text)'")
        )
        assert count.scalar_one() <= 1


def test_encoding_error_in_the_first_statement_leaves_no_open_transaction(
    database: Database,
) -> None:
    def try_it() -> None:
        with database.begin() as tx:
            used.append(tx.connection.driver_connection)
            tx.execute(INSERT, {"name": "\ud800"})

    used: list[Any] = []
    with pytest.raises(UnicodeEncodeError):
        try_it()
    with database.autocommit() as connection:
        assert connection.connection.driver_connection is used[0]
        connection.execute(INSERT, {"name": "a"})
    assert names(database) == ["a"]


def test_a_transaction_begins_with_its_first_statement(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answered(connection: Any, context: Any) -> None:
        requests.append(context.statement)
        original(connection, context)

    requests: list[str] = []
    original = driver.PreparedConnection.handle_messages
    with database.begin() as tx:
        tx.execute(INSERT, {"name": "a"})
    monkeypatch.setattr(driver.PreparedConnection, "handle_messages", answered)
    with database.begin() as tx:
        tx.execute(INSERT, {"name": "b"})
        assert names(database) == ["a"]
    assert [a for a in requests if a.upper().startswith(("BEGIN", "INSERT", "COMMIT"))] == [
        "INSERT INTO pools (name) VALUES ($1)",
        "commit",
    ]


def test_statement_is_not_executed_if_its_transaction_cannot_begin(database: Database) -> None:
    with database.autocommit() as connection:
        driven: Any = connection.connection.driver_connection
        driven._begin, _, _ = driven.prepare_statement("SELECT 1 / 0", ())
    with pytest.raises(QueryFailed, match="division by zero"), database.begin() as tx:
        tx.execute(INSERT, {"name": "a"})
    assert names(database) == []


def test_lock_waits_and_statements_have_time_limits(database: Database) -> None:
    limits = text("SELECT current_setting('lock_timeout'), current_setting('statement_timeout')")
    assert tuple(database.read(limits)[0]) == ("30s", "2min")


def test_locks_of_a_vanished_process_are_released_after_a_timeout(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A frozen function closes no connection, and the network reports no end."""
    limit = "idle_in_transaction_session_timeout"
    assert int(connections._SETTINGS[limit]) <= 60_000
    monkeypatch.setitem(connections._SETTINGS, limit, "100")
    vanished = Database(database_url)

    def lock_and_vanish() -> None:
        with vanished.begin() as tx:
            tx.execute(INSERT, {"name": "a"})
            with database.begin() as other:  # waits for the same name
                other.execute(INSERT, {"name": "a"})
            tx.execute(INSERT, {"name": "b"})

    with pytest.raises(DatabaseDown):
        lock_and_vanish()
    vanished.dispose()
    assert names(database) == ["a"]


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:p@db.example.com/x?sslmode=disable",
        "postgresql://u:p@10.0.0.7/x?sslmode=prefer",
    ],
)
def test_rejects_unencrypted_connections_to_other_machines(url: str) -> None:
    with pytest.raises(BadUrl, match="in plain text"):
        pg8000_arguments(driver_url(url))


@pytest.mark.parametrize(
    "url", ["postgresql://u@db.example.com/x", "postgresql://u@h/x?sslmode=require"]
)
def test_the_certificate_of_another_machine_is_verified(url: str) -> None:
    tls = pg8000_arguments(driver_url(url))["ssl_context"]
    assert tls.verify_mode is ssl.CERT_REQUIRED
    assert tls.check_hostname


def test_socket_connection_does_not_load_certificates(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("TLS over a socket")

    monkeypatch.setattr(ssl, "create_default_context", refuse)
    opened = Database(database_url)
    assert opened.read(text("select 1")) == [(1,)]
    opened.dispose()


def test_own_certificate_authority_verifies_a_server_at_any_address() -> None:
    url = f"postgresql://u@10.0.0.7/x?sslmode=verify-ca&sslrootcert={certifi.where()}"
    tls = pg8000_arguments(driver_url(url))["ssl_context"]
    assert tls.verify_mode is ssl.CERT_REQUIRED
    assert not tls.check_hostname


def test_rejects_verify_ca_without_an_own_certificate_authority() -> None:
    with pytest.raises(BadUrl, match="needs sslrootcert"):
        pg8000_arguments(driver_url("postgresql://u@10.0.0.7/x?sslmode=verify-ca"))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_local_connections_do_not_use_tls(host: str) -> None:
    assert pg8000_arguments(driver_url(f"postgresql://u@{host}:5432/x"))["ssl_context"] is None


def test_process_does_not_exceed_its_connection_limit(database_url: str) -> None:
    bounded, pids = Database(database_url, pool_size=2), set[int]()
    together = threading.Barrier(2, timeout=60)

    def ask(_: int) -> None:
        with bounded.begin() as tx:
            pids.add(tx.execute(BACKEND).one().pid)
            together.wait()

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(ask, range(6)))
    bounded.dispose()
    assert len(pids) == 2, "more connections than two were opened"


def test_thread_does_not_wait_for_a_connection_that_it_holds(database_url: str) -> None:
    bounded = Database(database_url, pool_size=1)
    with bounded.begin() as tx:
        own = tx.execute(BACKEND).one().pid
        assert bounded.read(BACKEND)[0].pid != own
    bounded.dispose()


def test_log_line_is_stored_after_its_thread_releases_its_connection(
    database_url: str,
) -> None:
    bounded = Database(database_url, pool_size=1)
    log = StoredLog(bounded)
    line = logging.LogRecord("det", logging.ERROR, "", 0, "inside a transaction", (), None)
    with suppress(Violated), bounded.begin() as tx:
        log.emit(line)
        tx.execute(INSERT, {"name": "default"})
        tx.execute(INSERT, {"name": "default"})
    assert bounded.read(LINES) == [("inside a transaction",)]
    bounded.dispose()


def test_waiting_log_line_does_not_block_log_lines_of_other_threads(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def acquire(timeout: float) -> bool:
        waits.set()
        return acquired(timeout=timeout)

    def line(message: str) -> logging.LogRecord:
        return logging.LogRecord("det", logging.ERROR, "", 0, message, (), None)

    bounded, waits = Database(database_url, pool_size=1), threading.Event()
    room, log = bounded._limit._room, StoredLog(bounded)
    acquired = room.acquire
    with ThreadPoolExecutor(1) as other:
        with bounded.begin():
            monkeypatch.setattr(room, "acquire", acquire)
            waiting = other.submit(log.handle, line("of a thread that waits"))
            assert waits.wait(60)
            log.handle(line("of a thread that has one"))
        waiting.result()
    lines_read = {r.message for r in bounded.read(LINES)}
    assert lines_read == {"of a thread that waits", "of a thread that has one"}
    bounded.dispose()
