"""Forward-only migrations: numbered SQL files, each applied once in its own transaction."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pg8000.native

from det_controlplane.db.engine import DatabaseDown, connect_options, translated

FOLDER = Path(__file__).parent / "migrations"
_LOCK = 0x6D696772  # any constant of our own: who migrates holds it
_NAME = re.compile(r"^(\d{4})_[a-z0-9_]+\.sql$")
# For some hours these files read differently. A database that took them so has the same schema from version 18 on.
_EARLIER_DRAFTS = {
    14: "641871006bfba4c4723cbe32999c449a83023a27fb074fc3872d5e161973ed55",
    16: "2ab3430715e2a1d9eefc3e4f126e91450ee7e1ad103a750116cb3ee3c8723091",
}
_HISTORY = """
create table if not exists schema_migrations (
  version integer primary key,
  name text not null,
  checksum text not null,
  applied_at timestamptz not null default now()
)"""


class MigrationError(Exception):
    """The files and the database disagree, or a file does not run."""


@dataclass(frozen=True, slots=True)
class Migration:
    version: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


def read_migrations(folder: Path = FOLDER) -> tuple[Migration, ...]:
    """The files of the folder, which must be numbered 0001, 0002, … without gaps."""
    found = []
    for path in sorted(folder.glob("*.sql")):
        named = _NAME.match(path.name)
        if named is None:
            raise MigrationError(f"{path.name}: call it like 0007_what_it_does.sql")
        found.append(Migration(int(named[1]), path.name, path.read_text("utf-8")))
    numbers = [m.version for m in found]
    if numbers != list(range(1, len(found) + 1)):
        raise MigrationError(f"migrations must be numbered 1 to {len(found)}, found {numbers}")
    return tuple(found)


def migrate(database_url: str, folder: Path = FOLDER) -> tuple[str, ...]:
    """Bring the database up to date, from any number of processes; names what was applied."""
    migrations = read_migrations(folder)
    with _connection(database_url) as connection:
        if not _pending(migrations, _landed(connection)):
            return ()
        return tuple(m.name for m in migrations if _apply(connection, m, migrations))


def _apply(connection: pg8000.native.Connection, m: Migration, every: Sequence[Migration]) -> bool:
    """Apply one file unless another process was faster."""
    connection.execute_simple("begin")
    try:
        connection.execute_simple(f"select pg_advisory_xact_lock({_LOCK})")
        connection.execute_simple(_HISTORY)
        pending = m in _pending(every, _landed(connection))
        if pending:
            # The simple protocol takes a whole file and leaves % and : alone.
            connection.execute_simple(m.sql)
            connection.run(
                "insert into schema_migrations (version, name, checksum) values (:v, :n, :c)",
                v=m.version,
                n=m.name,
                c=m.checksum,
            )
        connection.execute_simple("commit")
    except pg8000.native.DatabaseError as e:
        connection.execute_simple("rollback")
        raise MigrationError(f"{m.name}: {_sentence(e)}") from e
    except MigrationError:
        connection.execute_simple("rollback")
        raise
    return pending


def _pending(every: Sequence[Migration], landed: Mapping[int, str]) -> tuple[Migration, ...]:
    newest = max(landed, default=0)
    if newest > len(every):
        raise MigrationError(
            f"the database is at version {newest}, this program knows {len(every)}:"
            " install a newer one"
        )
    for m in every:
        taken = landed.get(m.version, m.checksum)
        if taken not in (m.checksum, _EARLIER_DRAFTS.get(m.version)):
            raise MigrationError(f"{m.name} was edited after it landed: restore it, add a new file")
    return tuple(m for m in every if m.version not in landed)


def _landed(connection: pg8000.native.Connection) -> dict[int, str]:
    exists = connection.run("select to_regclass('schema_migrations') is not null")
    if not exists[0][0]:
        return {}
    rows = connection.run("select version, checksum from schema_migrations")
    return {int(version): str(checksum) for version, checksum in rows}


@contextmanager
def _connection(url: str) -> Iterator[pg8000.native.Connection]:
    try:
        connection = pg8000.native.Connection(**connect_options(url))
    except (OSError, pg8000.native.InterfaceError) as e:
        raise DatabaseDown(f"the database does not answer: {e}") from e
    except pg8000.native.DatabaseError as e:
        refused = translated(e)
        if isinstance(refused, DatabaseDown):
            raise refused from e
        raise MigrationError(f"the database refuses us: {_sentence(e)}") from e
    # The 15 s of a connection attempt must not cut a long migration short.
    connection._usock.settimeout(None)
    try:
        yield connection
    finally:
        connection.close()


def _sentence(e: pg8000.native.DatabaseError) -> str:
    fields = e.args[0] if e.args and isinstance(e.args[0], dict) else {}
    where = f" (at character {fields['P']})" if "P" in fields else ""
    return f"{fields.get('M', e)}{where}"
