"""Processes of the control plane over one database, without shared memory."""

import json
from collections.abc import Callable, Sequence
from http import HTTPStatus
from random import Random
from typing import NamedTuple
from uuid import UUID

from det_controlplane.api import routes
from det_controlplane.api.app import App
from det_controlplane.api.http import Request, Response
from det_controlplane.api.router import Router
from det_controlplane.core.config import ClusterConfig
from det_controlplane.services.context import Context, RandomValues
from det_controlplane.services.maintenance import tick
from det_controlplane.services.memory import ProcessMemory

from tests.world.faults import Points, WatchedDatabase
from tests.world.objects import NoObjects
from tests.world.script import Call, Reply
from tests.world.timeline import Timeline

BOOTSTRAP_TOKEN = "bootstrap"


class InternalError(AssertionError):
    """A request met an exception that the product has no words for."""


class StrictApp(App):
    """End the simulation where the API would answer 500."""

    def failed(self, request: Request, e: Exception) -> Response:
        answer = super().failed(request, e)
        if answer.status == HTTPStatus.INTERNAL_SERVER_ERROR:
            raise InternalError(f"{request.method} {request.path}: {e!r}") from e
        return answer


class Done(NamedTuple):
    """The result of a service that succeeded, and the effect that follows."""

    said: str
    then: Callable[[], None]


class Process:
    """A host of the API and the tick, with a database pool and a memory of experiments of its own."""

    def __init__(
        self, name: str, url: str, timeline: Timeline, rng: Random, wake: Callable[[str], None]
    ) -> None:
        self.name = name
        self.points = Points()
        self._rng = rng
        self.wake = wake
        self.db = WatchedDatabase(url, self.points)
        self.ctx = Context(
            db=self.db, config=ClusterConfig(), waker=self, objects=NoObjects(),
            cluster_id="00000000-0000-0000-0000-000000000000", bootstrap_token=BOOTSTRAP_TOKEN,
            now=timeline.now, random=RandomValues(self._uuid, self._token, self._seed),
        )  # fmt: skip
        self.app = StrictApp(self.ctx, Router(routes.every()))

    def configure(self, config: ClusterConfig) -> None:
        self.ctx.config = config

    def reset(self, timeline: Timeline, rng: Random, wake: Callable[[str], None]) -> None:
        """Begin as the same host in another world: connections and their prepared statements are kept."""
        self._rng, self.wake, self.ctx.now = rng, wake, timeline.now
        self.points.rng = Random(rng.getrandbits(64))
        self.restart()

    def restart(self) -> None:
        """Start as a new process with empty caches."""
        self.ctx.memory = ProcessMemory()

    def answer(self, call: Call) -> Reply:
        headers = dict(call.headers)
        if call.token:
            headers["authorization"] = f"Bearer {call.token}"
        body = b"" if call.body is None else json.dumps(call.body).encode()
        path, _, query = call.path.partition("?")
        response = self.app.handle(
            Request(call.method, path, query=_query(query), headers=headers, body=body)
        )
        assert isinstance(response, Response), f"{call.path} answers with {type(response).__name__}"
        return Reply(response.status, json.loads(response.body or b"{}"))

    def tick(self) -> float | None:
        return tick.run(self.ctx)

    def _uuid(self) -> UUID:
        return UUID(int=self._rng.getrandbits(128), version=4)

    def _token(self) -> str:
        return f"{self._rng.getrandbits(128):032x}"

    def _seed(self) -> int:
        return self._rng.getrandbits(31)


def _query(text: str) -> dict[str, Sequence[str]]:
    parameters: dict[str, Sequence[str]] = {}
    for pair in filter(None, text.split("&")):
        name, _, value = pair.partition("=")
        parameters[name] = [*parameters.get(name, ()), value]
    return parameters
