"""Serve lists of 100 short rows with a bare ASGI app: the least that a list costs.

The app passes on the JSON that PostgreSQL makes, and ignores the bodies of requests. It has no users, rights, routes or
pages. Its cost follows the speed of the machine, so ratios to it also hold on slow machines. It runs with uvicorn, as
the API does: `uvicorn bench.bare:app`, with `BARE_DATABASE` set.
"""

import contextlib
import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pg8000.native
from det_controlplane.db.engine.connections import driver_url, pg8000_arguments

ROWS = 100
TABLE = """
CREATE TABLE IF NOT EXISTS bare_runs AS
SELECT id, 'run-' || id AS name, 'RUNNING' AS state, 0.5 AS progress, now() AS started, 'someone' AS owner
FROM generate_series(1, 100) AS id
"""
LISTING = f"""
SELECT json_agg(run)::text FROM (SELECT * FROM bare_runs ORDER BY id DESC LIMIT {ROWS}) AS run
"""
# The time of a list on a quiet machine, for which the floors are set.
THERE_MS = 0.15

connections: list[pg8000.native.Connection] = []


async def app(
    scope: dict[str, Any],
    receive: Callable[[], Awaitable[dict[str, Any]]],
    send: Callable[[dict[str, Any]], Awaitable[None]],
) -> None:
    if scope["type"] != "http":
        return
    body = await forgotten(receive) if scope["method"] == "POST" else listed()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def forgotten(receive: Callable[[], Awaitable[dict[str, Any]]]) -> bytes:
    while (await receive()).get("more_body"):
        pass
    return b"{}"


def listed() -> bytes:
    if not connections:
        connections.append(connect(os.environ["BARE_DATABASE"]))
    rows: str = connections[0].run(LISTING)[0][0]
    return rows.encode()


def connect(url: str) -> pg8000.native.Connection:
    return pg8000.native.Connection(**pg8000_arguments(driver_url(url)))


@contextlib.contextmanager
def serving(database: str) -> Iterator["Bare"]:
    """Serve bare statements from a process beside the API, with the same database."""
    connect(database).run(TABLE)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = int(s.getsockname()[1])
    root = Path(__file__).parents[1]
    flags = [
        "--port",
        str(port),
        "--log-level",
        "warning",
        "--no-access-log",
        "--timeout-keep-alive",
        "600",
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "uvicorn", "bench.bare:app", *flags],
        env={**os.environ, "BARE_DATABASE": database, "PYTHONPATH": str(root)},
    )
    try:
        yield Bare(process.pid, port)
    finally:
        process.kill()
        process.wait()


class Bare:
    def __init__(self, pid: int, port: int) -> None:
        self.pid, self.port = pid, port
        _wait_for(port)
        self._connection = http.client.HTTPConnection("127.0.0.1", port)

    def list(self) -> None:
        self._connection.request("GET", "/")
        answer = self._connection.getresponse()
        assert answer.status == 200
        assert len(json.loads(answer.read())) == ROWS


def _wait_for(port: int) -> None:
    for _ in range(200):
        with contextlib.suppress(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port)).close()
            return
        time.sleep(0.1)
    raise AssertionError("the bare app did not start")
