"""The database behind a real PgBouncer that gives each transaction another connection of the server."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from det_controlplane.core.lifecycle.experiment import Command
from det_controlplane.db.cluster import backups
from det_controlplane.db.engine.connections import plain_engine
from det_controlplane.db.engine.database import Database
from det_controlplane.db.engine.errors import BadUrl, QueryFailed, Violated
from det_controlplane.db.engine.migrate import HEAD, migrate, revision_of
from det_controlplane.services.experiments import actions, creation
from det_controlplane.services.maintenance import tick
from sqlalchemy import text

from tests.support.pgbouncer import pgbouncer
from tests.support.searching import ASHA, OWNER, Agent, context, running, validate

_SERVER = text("SELECT pg_backend_pid() AS pid, cast(:value AS text) AS value")
_NAMES = text("SELECT name FROM workspaces WHERE name IN ('a', 'b', 'c') ORDER BY name")
_LIMIT = text("SELECT current_setting('lock_timeout')")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def pooled_url(empty_database_url: str, folder: Path) -> Iterator[str]:
    with pgbouncer(empty_database_url, folder) as url:
        yield url


@pytest.fixture
def pooled(pooled_url: str) -> Iterator[Database]:
    migrate(pooled_url)
    database = Database(pooled_url)
    yield database
    database.dispose()


def test_a_database_is_migrated_through_the_pooler(pooled_url: str) -> None:
    assert migrate(pooled_url)[-1] == HEAD
    engine = plain_engine(pooled_url)
    with engine.connect() as connection:
        assert revision_of(connection) == HEAD
    engine.dispose()


def test_statements_work_on_any_server_connection(pooled: Database) -> None:
    servers = set()
    failures: list[Exception] = []

    def ask() -> None:
        try:
            for number in range(20):
                with pooled.begin() as tx:
                    first, second = (
                        tx.execute(_SERVER, {"value": str(n)}).one() for n in (number, -number)
                    )
                servers.add(first.pid)
                assert (second.pid, second.value) == (first.pid, str(-number))
                assert pooled.read(_SERVER, {"value": "a"})[0].value == "a"
        except Exception as e:
            failures.append(e)

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(servers) > 1


def test_lock_timeout_applies_to_each_transaction_only(pooled: Database, pooled_url: str) -> None:
    with pooled.begin() as tx:
        assert tx.execute(_LIMIT).scalar() == "30s"
    with pooled.autocommit() as tx:
        assert tx.execute(_LIMIT).scalar() == "30s"
    engine = plain_engine(pooled_url)
    for _ in range(4):
        with engine.connect() as connection:
            assert connection.execute(_LIMIT).scalar() == "0"
    engine.dispose()


def test_transactions_behind_rds_proxy_set_no_lock_timeout(
    pooled: Database, pooled_url: str
) -> None:
    database = Database(pooled_url.replace("pooler=transaction", "pooler=rds-proxy"))
    with database.begin() as tx:
        assert tx.execute(_LIMIT).scalar() == "0"
    database.dispose()


def test_failed_statement_does_not_affect_later_statements(pooled: Database) -> None:
    insert = text("INSERT INTO workspaces (name, user_id) VALUES (:name, 1)")
    with pooled.autocommit() as tx:
        tx.execute(insert, {"name": "a"})
        with pytest.raises(Violated):
            tx.execute(insert, {"name": "a"})
        tx.execute(insert, {"name": "b"})

    def insert_and_fail() -> None:
        with pooled.begin() as tx:
            tx.execute(insert, {"name": "c"})
            tx.execute(text("SELECT nothing"))

    with pytest.raises(QueryFailed):
        insert_and_fail()
    rows = pooled.read(_NAMES)
    assert [row.name for row in rows] == ["a", "b"]


@pytest.mark.parametrize("pooler", ["transaction", "rds-proxy"])
def test_experiments_run_through_the_pooler(
    pooler: str, pooled_url: str, request: pytest.FixtureRequest
) -> None:
    migrate(pooled_url)
    database = Database(pooled_url.replace("pooler=transaction", f"pooler={pooler}"))
    request.addfinalizer(database.dispose)
    ctx = context(database)
    agent = Agent.joined(ctx, slots=2)
    experiment = running(ctx, ASHA.format(trials=4))
    for trial in experiment.trials:
        validate(ctx, trial, 1, 0.5)
    created_experiment = creation.create(
        ctx, OWNER, creation.Submission(config=ASHA.format(trials=2))
    )
    tick.run(ctx)
    assert len(agent.poll()) == 2
    actions.command(ctx, created_experiment.experiment_id or 0, Command.KILL)
    tick.run(ctx)


def test_backup_rejects_the_pooler_url(pooled_url: str) -> None:
    with (
        pytest.raises(BadUrl, match="to the database itself, not to its pooler"),
        backups.holding_deletions(pooled_url),
    ):
        pass


def test_rejects_unknown_pooler() -> None:
    with pytest.raises(BadUrl, match="pooler must be one of transaction, rds-proxy, not 'session'"):
        Database("postgresql://det@127.0.0.1/det?pooler=session")
