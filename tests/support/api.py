"""An API to ask in tests: requests go through routing, rights and errors as on any host."""

import functools
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import yaml
from det_controlplane.adapters.aes_cipher import AesCipher
from det_controlplane.adapters.checkpoint_files import ReachableCheckpoints
from det_controlplane.adapters.directory_objects import DirectoryObjects
from det_controlplane.api import routes
from det_controlplane.api.app import App
from det_controlplane.api.http import Answer, Request, Response, Stream
from det_controlplane.api.router import Router
from det_controlplane.core.config.cluster import ClusterConfig, load_cluster
from det_controlplane.db.agents import silence
from det_controlplane.db.engine.database import Database
from det_controlplane.ports.waker import NoWaker
from det_controlplane.services.cluster import first_start
from det_controlplane.services.context import Context, Host
from det_controlplane.services.identity import passwords
from det_controlplane.services.maintenance import tick
from sqlalchemy import text

PASSWORD = "a first password"
BOOTSTRAP = "bootstrap"
# Tests sign in about twice each; tests/unit/test_passwords.py checks the cost of a password outside of tests.
CHEAP_SCRYPT = 2
POOLS = ("default", "reserved")
# A host would wait for more of a stream; in these tests no more data comes.
_EMPTY_BATCHES = 50
_RETRY = text("UPDATE outbox SET due_at = :now WHERE kind::text LIKE 'delete_%' AND due_at > :now")
Query = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class ApiResponse:
    """An answer: its status, its bytes, and their content."""

    status: int
    body: bytes
    media_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        return str(self.json()["error"]["error"])


@dataclass
class Caller:
    """Somebody with a token."""

    app: App
    token: str

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        query: Query | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> ApiResponse:
        raw = (
            body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        )
        fields = {"authorization": f"Bearer {self.token}"} if self.token else {}
        request = Request(
            method, path, query=query or {}, headers={**fields, **(headers or {})}, body=raw
        )
        return told(self.app, self.app.handle(request))

    def done(self, method: str, path: str, body: Any = None, query: Query | None = None) -> Any:
        """Send a request that must succeed."""
        response = self.ask(method, path, body, query)
        assert response.status == 200, f"{method} {path}: {response.status} {response.body!r}"
        return response.json()

    def get(self, path: str, **query: object) -> Any:
        query_lists = {
            k: [str(x) for x in v] if isinstance(v, list) else [str(v)] for k, v in query.items()
        }
        return self.done("GET", path, query=query_lists)

    def post(self, path: str, body: Any = None) -> Any:
        return self.done("POST", path, body)

    def lines(self, path: str, query: Query | None = None) -> list[Any]:
        """Return the objects of a stream."""
        response = self.ask("GET", path, query=query)
        assert response.status == 200, response.body
        return [json.loads(line)["result"] for line in response.body.splitlines()]


@dataclass
class Api:
    ctx: Context
    app: App
    checkpoints: Path

    def anonymous(self) -> Caller:
        return Caller(self.app, "")

    def with_token(self, token: str) -> Caller:
        return Caller(self.app, token)

    def signed_in(self, username: str, password: str = PASSWORD) -> Caller:
        login = {"username": username, "password": password, "isHashed": False}
        return Caller(self.app, self.anonymous().post("/api/v1/auth/login", login)["token"])

    def tick(self) -> None:
        """Tick as if ticks had run continuously, so that the time that passes in a test is not an interruption."""
        with self.ctx.db.begin() as tx:
            now = self.ctx.now()
            silence.store_tick(tx, now, now - timedelta(hours=1), after_interruption=False)
        tick.run(self.ctx)

    def retry_deletions(self) -> None:
        """Tick with deletions that wait for their next try, without waiting."""
        with self.ctx.db.begin() as tx:
            tx.execute(_RETRY, {"now": self.ctx.now()})
        self.tick()


@contextmanager
def api_over(database: Database, folder: Path) -> Iterator[Api]:
    checkpoints = folder / "checkpoints"
    checkpoints.mkdir()
    config = load_cluster(
        {
            "checkpoint_storage": {"type": "directory", "container_path": str(checkpoints)},
            "resource_pools": [{"pool_name": name} for name in POOLS],
        }
    )
    with patch.dict(passwords.SCRYPT, n=CHEAP_SCRYPT):
        yield _api(database, config, checkpoints)


@functools.cache
def _every_route() -> Router:
    """Return the routes, laid out once for all tests of a process."""
    return Router(routes.every())


def _api(database: Database, config: ClusterConfig, checkpoints: Path) -> Api:
    folder = checkpoints.parent
    first_start.store_first_password(database, PASSWORD)
    ctx = Context(
        db=database,
        config=config,
        waker=NoWaker(),
        objects=DirectoryObjects(folder / "objects", b"secret"),
        cluster_id=first_start.cluster_identity(database),
        bootstrap_token=BOOTSTRAP,
        cipher=AesCipher(["the key of the tests"]),
        checkpoint_files=ReachableCheckpoints(),
        host=Host(carries_traffic=True),
    )
    return Api(ctx, App(ctx, _every_route()), checkpoints)


def config_of(**more: Any) -> str:
    """Return a configuration that is accepted, as YAML."""
    base = {
        "name": "counting",
        "entrypoint": "python3 train.py",
        "hyperparameters": {"lr": 0.1},
        "searcher": {"name": "single", "metric": "loss", "max_length": {"batches": 4}},
        "max_restarts": 0,
    }
    return yaml.safe_dump({**base, **more})


def create(caller: Caller, **more: Any) -> int:
    """Create a paused experiment: it has its trial and asks for no slots."""
    activate = more.pop("activate", False)
    request = {"config": config_of(**more), "activate": activate}
    return int(caller.post("/api/v1/experiments", request)["experiment"]["id"])


def create_ended(caller: Caller, **more: Any) -> int:
    experiment_id = create(caller, **more)
    caller.post(f"/api/v1/experiments/{experiment_id}/kill")
    return experiment_id


def trial_of(caller: Caller, experiment_id: int) -> dict[str, Any]:
    trial: dict[str, Any] = caller.get(f"/api/v1/experiments/{experiment_id}/trials")["trials"][0]
    return trial


def report_checkpoint(caller: Caller, experiment_id: int, steps: int = 2, **resources: str) -> str:
    """Report a checkpoint of the experiment's first trial, as its container would."""
    checkpoint = str(uuid.uuid4())
    caller.post(
        "/api/v1/checkpoints",
        {
            "uuid": checkpoint, "taskId": trial_of(caller, experiment_id)["taskId"],
            "resources": resources or {"state": "1"}, "metadata": {"steps_completed": steps},
            "state": "STATE_COMPLETED",
        },
    )  # fmt: skip
    return checkpoint


def report_metrics(
    caller: Caller, trial_id: int, group: str, steps: int, metrics: dict[str, Any], run: int = 0
) -> ApiResponse:
    inner = {
        "trialId": trial_id,
        "trialRunId": run,
        "stepsCompleted": steps,
        "metrics": {"avgMetrics": metrics},
    }
    body = {"group": group, "metrics": inner}
    return caller.ask("POST", f"/api/v1/trials/{trial_id}/metrics", body)


def told(app: App, answer: Answer) -> ApiResponse:
    if isinstance(answer, Stream):
        parts: list[bytes] = []
        cursor, done, empty = answer.cursor, False, 0
        while not done and empty < _EMPTY_BATCHES:
            batch = answer.fetch(cursor)
            parts.extend(batch.lines)
            cursor, done = batch.cursor, batch.done
            empty = 0 if batch.lines else empty + 1
        return ApiResponse(200, b"".join(parts), answer.media_type, answer.headers)
    assert isinstance(answer, Response), "a host that cannot wait was told to wait"
    return ApiResponse(answer.status, answer.body, answer.media_type, answer.headers)
