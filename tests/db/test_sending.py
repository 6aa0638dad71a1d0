"""What travels alone, and what with the next statement or with the commit."""

import pytest
from det_controlplane.db.engine import Database, Tx, Violated
from det_controlplane.db.sql import text

from tests.support.round_trips import round_trips

_PUT = text("INSERT INTO pools (name) VALUES (:name)")
_NAMES = text("SELECT name FROM pools ORDER BY name")
_PUT_AND_TELL = text("INSERT INTO pools (name) VALUES (:name) RETURNING name")


@pytest.fixture
def ready(database: Database) -> Database:
    """The statements were used before: from then on they may wait."""
    with database.begin() as tx:
        tx.run(_PUT, {"name": "before"})
        tx.rows(_PUT_AND_TELL, {"name": "told"})
        tx.rows(_NAMES)
        tx.connection.rollback()
    return database


def names(database: Database) -> list[str]:
    return [row.name for row in database.read(_NAMES)]


def put(tx: Tx, *wanted: str) -> None:
    for name in wanted:
        tx.send(_PUT, {"name": name})


def test_what_was_sent_is_seen_by_the_next_statement(ready: Database) -> None:
    with ready.begin() as tx:
        put(tx, "b", "a")
        assert [row.name for row in tx.rows(_NAMES)] == ["a", "b"]
        put(tx, "c")
        assert tx.run(_PUT, {"name": "d"}) == 1
    assert names(ready) == ["a", "b", "c", "d"]


def test_several_writes_and_their_commit_are_one_round_trip(
    ready: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with round_trips(monkeypatch) as sent, ready.begin() as tx:
        put(tx, "a", "b")
    assert sent == [_PUT.text, _PUT.text]
    assert names(ready) == ["a", "b"]


def test_what_was_sent_ends_with_the_last_rows(ready: Database) -> None:
    with ready.begin() as tx:
        put(tx, "a")
        assert [row.name for row in tx.rows_last(_NAMES)] == ["a"]
        with pytest.raises(RuntimeError):
            put(tx, "b")
    assert names(ready) == ["a"]


def test_nothing_is_written_when_the_transaction_fails(ready: Database) -> None:
    def fail() -> None:
        with ready.begin() as tx:
            put(tx, "a")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert names(ready) == []
    with ready.begin() as tx:
        put(tx, "b")
    assert names(ready) == ["b"]


@pytest.mark.parametrize("at_commit", [True, False])
def test_a_refusal_is_told_by_what_the_write_travelled_with(
    ready: Database, at_commit: bool
) -> None:
    def put_twice() -> None:
        with ready.begin() as tx:
            put(tx, "a", "a", "b")
            if not at_commit:
                tx.rows(_NAMES)

    with pytest.raises(Violated, match="pools_pkey"):
        put_twice()
    assert names(ready) == []


def test_rows_that_nobody_would_see_are_refused(ready: Database) -> None:
    with pytest.raises(TypeError), ready.begin() as tx:
        tx.send(_PUT_AND_TELL, {"name": "a"})
    assert names(ready) == []


def test_reading_alone_needs_no_transaction(
    ready: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with round_trips(monkeypatch) as sent, ready.begin() as tx:
        tx.rows(_NAMES)
        tx.rows(_NAMES)
    assert sent == [_NAMES.text, _NAMES.text]


LASTING = {
    "lock": "SELECT name FROM pools FOR NO KEY UPDATE",
    "advisory lock": "SELECT pg_advisory_xact_lock(1)",
    "number": "SELECT nextval('experiment_text_versions')",
    "write": "WITH put AS (INSERT INTO pools (name) VALUES ('a') RETURNING name) SELECT name FROM put",
}


@pytest.mark.parametrize("sql", LASTING.values(), ids=LASTING)
def test_what_does_more_than_read_begins_the_transaction(
    ready: Database, monkeypatch: pytest.MonkeyPatch, sql: str
) -> None:
    with round_trips(monkeypatch) as sent, ready.begin() as tx:
        tx.rows(_NAMES)
        tx.rows(text(sql))
        assert tx.connection.in_transaction
    assert sent == [_NAMES.text, sql, "commit"]


def test_rows_that_nobody_would_see_are_refused_at_the_first_use_too(database: Database) -> None:
    with pytest.raises(TypeError), database.begin() as tx:
        tx.send(_PUT_AND_TELL, {"name": "a"})
    assert names(database) == []


def test_a_statement_that_cannot_be_sent_takes_nothing_with_it(ready: Database) -> None:
    with ready.begin() as tx:
        put(tx, "a")
        with pytest.raises(UnicodeEncodeError):
            tx.run(_PUT, {"name": "\ud800"})
    assert names(ready) == ["a"]


def test_nothing_is_sent_after_the_commit(ready: Database) -> None:
    with ready.begin() as tx:
        put(tx, "a")
    with pytest.raises(RuntimeError):
        put(tx, "b")
    with pytest.raises(RuntimeError):
        tx.rows(_NAMES)
    assert names(ready) == ["a"]


def test_nothing_is_sent_after_a_rollback(ready: Database) -> None:
    with pytest.raises(ZeroDivisionError), ready.begin() as tx:
        raise ZeroDivisionError
    with pytest.raises(RuntimeError):
        put(tx, "b")
    assert names(ready) == []
