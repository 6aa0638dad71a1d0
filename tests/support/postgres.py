"""One throw-away PostgreSQL a test session (a worker of xdist has its own); each test has a database for itself."""

import contextlib
import itertools
from collections.abc import Iterator

import pg8000.native
from det_controlplane.adapters.embedded_postgres import EmbeddedPostgres
from det_controlplane.db.engine.connections import driver_url, pg8000_arguments
from det_controlplane.db.engine.database import Database
from det_controlplane.db.engine.migrate import migrate

from tests.support.kept_database import KeptDatabase
from tests.support.memory import temporary_folder

TEMPLATE = "template_det"
# A server of each worker: its own files, its log of changes, and the databases of a module.
ROOM_BYTES = 4 * 1024**3


class DatabaseServer:
    """Provide databases with the migrated schema only."""

    def __init__(self, postgres: EmbeddedPostgres) -> None:
        self._postgres = postgres
        self._names = (f"test_{n}" for n in itertools.count(1))
        self._admin = pg8000.native.Connection(**pg8000_arguments(driver_url(postgres.url())))
        self._admin.run(f"create database {TEMPLATE}")
        migrate(postgres.url(TEMPLATE))
        self._free: list[KeptDatabase] = []
        self._in_use: dict[str, KeptDatabase] = {}

    @contextlib.contextmanager
    def database(self) -> Iterator[str]:
        """Yield the URL of a database with the schema only."""
        with self._lent() as kept_database:
            yield kept_database.url

    @contextlib.contextmanager
    def opened(self, url: str) -> Iterator[Database]:
        """Yield a Database of a lent URL; the connections that it opens are the next one's, too."""
        with self._in_use[url].opened() as database:
            yield database

    @contextlib.contextmanager
    def empty_database(self) -> Iterator[str]:
        """Yield the URL of a new database without any schema, dropped afterwards."""
        name = self._copy("template1")
        try:
            yield self._postgres.url(name)
        finally:
            self._drop(name)

    @contextlib.contextmanager
    def _lent(self) -> Iterator[KeptDatabase]:
        database = self._next()
        self._in_use[database.url] = database
        try:
            yield database
        finally:
            del self._in_use[database.url]
            if database.emptied():
                self._free.append(database)
            else:
                self._end(database)

    def _next(self) -> KeptDatabase:
        while self._free:
            database = self._free.pop()
            if database.is_as_made():
                return database
            self._end(database)
        return self._new()

    def _end(self, database: KeptDatabase) -> None:
        database.close()
        self._drop(database.name)

    def _new(self) -> KeptDatabase:
        name = self._copy(TEMPLATE)
        return KeptDatabase(name, self._postgres.url(name))

    def _copy(self, template: str) -> str:
        name = next(self._names)
        self._admin.run(f"create database {name} template {template} strategy file_copy")
        return name

    def _drop(self, name: str) -> None:
        self._admin.run(f"drop database {name} with (force)")

    def copy(self, source: str, name: str) -> None:
        """Make a database like another, in place of an earlier one; connections to both end."""
        self._admin.run(f"drop database if exists {name} with (force)")
        ending = "select pg_terminate_backend(pid) from pg_stat_activity where datname = :source"
        self._admin.run(ending, source=source)
        self._admin.run(f"create database {name} template {source} strategy file_copy")

    def close(self) -> None:
        for database in self._free:
            database.close()
        self._admin.close()


@contextlib.contextmanager
def throwaway_server() -> Iterator[DatabaseServer]:
    with (
        temporary_folder(ROOM_BYTES) as folder,
        EmbeddedPostgres(folder, throwaway=True) as postgres,
    ):
        server = DatabaseServer(postgres)
        try:
            yield server
        finally:
            server.close()
