"""One throw-away PostgreSQL a test session (a worker of xdist has its own), one database a test."""

import contextlib
import itertools
from collections.abc import Iterator

import pg8000.native
from det_controlplane.adapters.embedded_postgres import EmbeddedPostgres
from det_controlplane.db.connections import driver_url, pg8000_arguments
from det_controlplane.db.migrate import migrate

from tests.support.memory import temporary_folder

TEMPLATE = "template_det"
# A server of each worker: its own files, its log of changes, and the databases of a module.
ROOM_BYTES = 4 * 1024**3


class DatabaseServer:
    """Hands out databases that hold the migrated schema and nothing else."""

    def __init__(self, postgres: EmbeddedPostgres) -> None:
        self._postgres = postgres
        self._names = (f"test_{n}" for n in itertools.count(1))
        self._admin = pg8000.native.Connection(**pg8000_arguments(driver_url(postgres.url())))
        self._admin.run(f"create database {TEMPLATE}")
        migrate(postgres.url(TEMPLATE))

    @contextlib.contextmanager
    def database(self, template: str = TEMPLATE) -> Iterator[str]:
        """Yield the URL of a new database, dropped afterwards."""
        name = next(self._names)
        self._admin.run(f"create database {name} template {template} strategy file_copy")
        try:
            yield self._postgres.url(name)
        finally:
            self._admin.run(f"drop database {name} with (force)")

    def copy(self, source: str, name: str) -> None:
        """Make a database like another, in place of an earlier one; connections to both end."""
        self._admin.run(f"drop database if exists {name} with (force)")
        ending = "select pg_terminate_backend(pid) from pg_stat_activity where datname = :source"
        self._admin.run(ending, source=source)
        self._admin.run(f"create database {name} template {source} strategy file_copy")

    def close(self) -> None:
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
