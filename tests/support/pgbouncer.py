"""A real PgBouncer that gives each transaction another connection of the server."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from det_controlplane.adapters.postgres_binaries import user_namespace

from tests.support import debian, skips
from tests.support.ports import free_port
from tests.support.processes import eventually

_CONFIGURATION = """
[databases]
* = host={host} port={port} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {own_port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 3
server_round_robin = 1
logfile = {folder}/log
pidfile = {folder}/pid
"""


def program() -> str:
    """Return the path of PgBouncer, which is installed where that is allowed."""
    if shutil.which("pgbouncer") is None:
        debian.install("pgbouncer")
    path = shutil.which("pgbouncer")
    if path is None:
        skips.skip(f"{skips.PACKAGES} (pgbouncer)", "a machine where apt-get reaches Debian")
    return path


@contextmanager
def pgbouncer(url: str, folder: Path) -> Iterator[str]:
    """Yield the URL of the same database behind PgBouncer."""
    path = program()
    socket = Path(parse_qs(urlsplit(url).query)["unix_sock"][0])
    own_port = free_port()
    configuration = folder / "pgbouncer.ini"
    configuration.write_text(
        _CONFIGURATION.format(
            host=socket.parent,
            port=socket.name.rpartition(".")[2],
            own_port=own_port,
            folder=folder,
        )
    )
    prefix: tuple[str, ...] = ()
    if os.geteuid() == 0:  # PgBouncer refuses to run as root
        prefix = user_namespace()
        if not prefix:
            skips.skip("this machine allows no user namespaces", "a machine or container that does")
    process = subprocess.Popen([*prefix, path, "-q", str(configuration)])
    try:
        log = folder / "log"
        eventually(lambda: log.exists() and "process up" in log.read_text())
        yield f"postgresql://postgres@127.0.0.1:{own_port}{urlsplit(url).path}?pooler=transaction"
    finally:
        process.terminate()
        process.wait(30)
