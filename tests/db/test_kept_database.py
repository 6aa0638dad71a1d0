"""Databases that tests share one after another contain no data of earlier tests."""

import pytest
from det_controlplane.db.engine.errors import DatabaseDown
from det_controlplane.services.experiments import creation
from sqlalchemy import text

from tests.support.postgres import DatabaseServer
from tests.support.searching import OWNER, SINGLE, context

_NUMBER = text("SELECT nextval('experiments_id_seq')")
_USERS = text("SELECT username FROM users ORDER BY id")


def test_next_test_reuses_the_database_without_earlier_rows(
    postgres_server: DatabaseServer,
) -> None:
    with postgres_server.database() as url, postgres_server.opened(url) as database:
        first = creation.create(
            context(database), OWNER, creation.Submission(config=SINGLE)
        ).experiment_id
        users = database.read(_USERS)
        with database.begin() as tx:
            tx.execute(text("UPDATE users SET username = 'another' WHERE username = 'admin'"))
    with postgres_server.database() as again, postgres_server.opened(again) as database:
        assert again == url
        assert database.read(_USERS) == users
        assert database.read(_NUMBER) == [(first,)]


@pytest.mark.parametrize(
    "changing",
    [
        "ALTER TABLE pools ADD COLUMN another integer",
        "ALTER TABLE pools ALTER COLUMN marked DROP NOT NULL",
        "ALTER TABLE users DISABLE TRIGGER ALL",
        "DROP INDEX metrics_by_trial",
        "DROP TABLE alembic_version",
        "ANALYZE pools",
        "UPDATE alembic_version SET version_num = '0000'",
        "INSERT INTO pools (name) SELECT 'pool ' || n FROM generate_series(1, 40000) AS n",
    ],
)
def test_database_with_a_changed_schema_is_not_reused(
    postgres_server: DatabaseServer, changing: str
) -> None:
    with (
        postgres_server.database() as url,
        postgres_server.opened(url) as database,
        database.begin() as tx,
    ):
        tx.execute(text(changing))
    with postgres_server.database() as another:
        assert another != url


def test_database_with_new_statistics_is_not_reused(
    postgres_server: DatabaseServer,
) -> None:
    with postgres_server.database() as url, postgres_server.opened(url) as database:
        engine = database.engine
    with engine.connect() as connection:
        connection.execute(text("ANALYZE pools"))
        connection.commit()
    with postgres_server.database() as another:
        assert another != url


def test_database_of_a_finished_test_rejects_statements(postgres_server: DatabaseServer) -> None:
    with postgres_server.database() as url, postgres_server.opened(url) as database:
        database.read(_USERS)
    with pytest.raises(DatabaseDown, match="is over"):
        database.read(_USERS)


def test_database_with_an_open_transaction_is_not_reused(
    postgres_server: DatabaseServer,
) -> None:
    with postgres_server.database() as url, postgres_server.opened(url) as database:
        connection = database.engine.connect()
        connection.execute(text("INSERT INTO pools (name) VALUES ('left')"))
    with postgres_server.database() as another:
        assert another != url
    connection.invalidate()
