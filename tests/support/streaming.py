"""A PostgreSQL server and its streaming replica, both on this machine."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from det_controlplane.adapters.embedded_postgres import EmbeddedPostgres
from det_controlplane.db.engine.database import Database
from det_controlplane.db.engine.migrate import migrate
from sqlalchemy import text

from tests.support.memory import temporary_folder
from tests.support.processes import eventually

_ROOM_BYTES = 1024**3
_POSITION = text("SELECT pg_current_wal_insert_lsn()::text")
_HAS_REPLAYED = text("SELECT pg_last_wal_replay_lsn() >= cast(:position AS pg_lsn)")
_PAUSE = text("SELECT pg_wal_replay_pause()")
_IS_PAUSED = text("SELECT pg_get_wal_replay_pause_state() = 'paused'")
_RESUME = text("SELECT pg_wal_replay_resume()")


@dataclass
class Replicated:
    """A migrated database with its copy."""

    primary: Database
    copy: Database
    server_of_copy: EmbeddedPostgres

    def pause(self) -> None:
        """Let the copy stay as it is."""
        self.follow()
        self.copy.read(_PAUSE)
        eventually(lambda: bool(self.copy.read(_IS_PAUSED)[0][0]))

    def follow(self) -> None:
        """Let the copy follow again, and wait until it has all changes."""
        self.copy.read(_RESUME)
        position = self.primary.read(_POSITION)[0][0]
        eventually(lambda: bool(self.copy.read(_HAS_REPLAYED, {"position": position})[0][0]))


@contextmanager
def streaming_replica() -> Iterator[Replicated]:
    with temporary_folder(_ROOM_BYTES) as folder:
        first = EmbeddedPostgres(folder / "primary", throwaway=True)
        with first:
            migrate(first.url())
        second = EmbeddedPostgres(folder / "copy", throwaway=True)
        second.home.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "-a", first.home, second.home], check=True)
        with first:
            _follow(second.data, first)
            with second:
                primary, copy = Database(first.url()), Database(second.url())
                replicated = Replicated(primary, copy, second)
                replicated.follow()
                yield replicated
                primary.dispose()
                copy.dispose()


def _follow(data: Path, primary: EmbeddedPostgres) -> None:
    """Let the server of a data directory follow another one."""
    (data / "standby.signal").touch()
    sockets = primary.home / "sockets"
    with (data / "postgresql.auto.conf").open("a") as settings:
        settings.write(f"primary_conninfo = 'host={sockets} port={primary.port} user=postgres'\n")
