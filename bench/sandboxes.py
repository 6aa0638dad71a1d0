"""Measure two hundred concurrent sandboxes of the API's function on one small database: `python -m bench.sandboxes`.

Each has a connection, as a sandbox of Lambda has, and keeps it after its answer, as a frozen sandbox does. Here they
are threads of one process, and share the processors of this machine.
"""

import json
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from det_controlplane.adapters.embedded_postgres import EmbeddedPostgres
from det_controlplane.api.app import App
from det_controlplane.db.engine.connections import Pausing
from det_controlplane.db.engine.database import Database
from det_controlplane.db.engine.migrate import migrate
from det_controlplane.entry.aws.events import respond
from det_controlplane.entry.build import build_context, build_function
from det_controlplane.entry.settings import from_environment
from det_controlplane.ports.waker import NoWaker
from det_controlplane.services.context import Context

from tests.support.lambda_calls import create_experiment, sign_in
from tests.support.lambda_events import Http, answered, http_api_event

SANDBOXES = 200
GATEWAY_S = 29.0


class Sandbox:
    """A function's process: it answers one request at a time, and is frozen in between."""

    def __init__(self, ctx: Context) -> None:
        # The settings of the stack: an idle connection is closed after a minute. A full database is retried for 20
        # seconds.
        database = Database(ctx.db.url, pool_size=1, pausing=Pausing(idle_s=60, wake_s=20))
        self._app: App = build_function(replace(ctx, db=database))

    def invoke(self, event: Any, /) -> Any:
        answer = respond(self._app, event)
        self._app.ctx.db.rest()
        return answer

    def close(self) -> None:
        self._app.ctx.db.dispose()


def request_of(sandbox: Sandbox, request: Http) -> Callable[[], tuple[int, float]]:
    def ask() -> tuple[int, float]:
        start = time.perf_counter()
        status, _, _ = answered(sandbox.invoke(http_api_event(request)))
        return status, time.perf_counter() - start

    return ask


def measured(ctx: Context) -> list[tuple[int, float]]:
    """Let all sandboxes answer at once. Return each status, with the seconds until it arrived."""
    first = Sandbox(ctx)
    token = sign_in(first)
    path = f"/api/v1/experiments/{create_experiment(first, token)}"
    first.close()
    request = Http("GET", path, headers=(("Authorization", f"Bearer {token}"),))
    sandboxes = [Sandbox(ctx) for _ in range(SANDBOXES)]
    with ThreadPoolExecutor(SANDBOXES) as threads:
        futures = [threads.submit(request_of(sandbox, request)) for sandbox in sandboxes]
    for sandbox in sandboxes:
        sandbox.close()
    return [each.result() for each in futures]


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as name,
        EmbeddedPostgres(Path(name) / "postgres", throwaway=True) as server,
    ):
        migrate(server.url())
        environment = {
            "DET_DB_URL": server.url(), "DET_OBJECTS": f"{name}/objects", "DET_OBJECTS_SECRET": "secret",
            "DET_INITIAL_USER_PASSWORD": "Password1", "DET_DB_POOL_SIZE": "1",
            "DET_CLUSTER_CONFIG": '{"checkpoint_storage": {"type": "s3", "bucket": "checkpoints"}}',
        }  # fmt: skip
        answers = measured(build_context(from_environment(environment), NoWaker()))
    refusals = sum(status != 200 for status, _ in answers)
    line = {"name": "sandboxes_200_refused", "value": refusals, "unit": "answers"}
    print(json.dumps({**line, "floor": 0, "better": "lower", "peer": None}), flush=True)
    slowest = round(max(seconds for _, seconds in answers), 1)
    line = {"name": "sandboxes_200_slowest_answer", "value": slowest, "unit": "s"}
    print(json.dumps({**line, "floor": GATEWAY_S, "better": "lower", "peer": None}), flush=True)


if __name__ == "__main__":
    main()
