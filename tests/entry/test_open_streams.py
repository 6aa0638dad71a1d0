"""One caller keeps so many streams, long polls and connections to tasks open, and leaves room for others."""

import asyncio
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack
from dataclasses import replace
from pathlib import Path
from unittest.mock import MagicMock

import pytest
import uvicorn
from det_controlplane.adapters.notifier import LocalNotifier
from det_controlplane.api.app import App
from det_controlplane.api.http import Answer, Batch, Stream, Wait, bearer_token, json_response
from det_controlplane.core.config.cluster import ClusterConfig, load_cluster
from det_controlplane.db.engine.database import Database
from det_controlplane.entry.server import api_server, asgi
from det_controlplane.entry.server.asgi import AsgiApp
from det_controlplane.entry.settings import from_environment
from det_controlplane.services.context import Context
from det_controlplane.services.principal import User
from det_controlplane.services.tasks import proxying
from det_controlplane.services.tasks.proxying import RequestTokens, Target
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from tests.entry.test_relay_websockets import kernel
from tests.support.api import Api, Caller, api_over
from tests.support.apps import small_app
from tests.support.asgi import Call, in_flight, requested
from tests.support.relayed import behind_an_api, proxied
from tests.support.socket_server import behind_socket

REACHED = 426  # a kernel answers websockets only
USERS = {"ann": 1, "a task of ann": 1, "bob": 2}
_UNUSED = {"DET_DB_URL": "postgresql://unused@127.0.0.1/unused"}
FEW = {"security": {"max_streams_per_user": 2, "max_connections_per_address": 3}}


@pytest.fixture
def api(database: Database, tmp_path: Path) -> Iterator[Api]:
    with api_over(database, tmp_path) as new_api:
        new_api.ctx.config = few(new_api.ctx.config)
        yield new_api


def few(config: ClusterConfig) -> ClusterConfig:
    limits = load_cluster(FEW)
    return replace(
        config,
        max_streams_per_user=limits.max_streams_per_user,
        max_connections_per_address=limits.max_connections_per_address,
    )


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> App:
    """Return an app of which the tokens are names of users."""

    def follow(_: Context, r: object) -> Answer:
        return Stream(lambda cursor: Batch([] if cursor else [b"line"], True, False), topic="log")

    def poll(_: Context, r: object) -> Answer:
        final = getattr(r, "final", False)
        return json_response({"final": final}) if final else Wait("news", 600)

    app = small_app(("/follow", follow), ("/poll", poll), may_wait_s=600)
    app.ctx.config = few(ClusterConfig())
    handle = app.handle

    def known(r: object) -> Answer:
        answer, name = handle(r), bearer_token(r)  # type: ignore[arg-type]
        r.principal = User(USERS[name], name, False, 1) if name else None  # type: ignore[attr-defined]
        return answer

    monkeypatch.setattr(app, "handle", known)
    return app


def signed(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer {name}"}


async def begun(call: Call) -> Call:
    assert await asyncio.wait_for(call.parts.get(), 60) == b"line"
    return call


def test_log_streams_are_limited_by_user(app: App) -> None:
    host = AsgiApp(app, LocalNotifier())

    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            calls = []
            for name in ("ann", "a task of ann", "bob"):
                following = in_flight(host, "/follow", headers=signed(name))
                calls.append(await begun(await stack.enter_async_context(following)))
            response = await requested(host, "GET", "/follow", headers=signed("ann"))
            assert (response.status, response.headers["retry-after"]) == (429, "5")
            assert "security.max_streams_per_user" in response.json()["error"]["error"]
            calls[1].hang_up()
            second_call = Call(b"")
            while second_call.got.status != 200:  # until the server has noticed
                async with in_flight(host, "/follow", headers=signed("ann")) as second_call:
                    await asyncio.wait_for(second_call.parts.get(), 60)
                    second_call.hang_up()
            for call in calls:
                call.hang_up()

    asyncio.run(scenario())


def test_streams_without_a_sign_in_are_limited_by_address(app: App) -> None:
    host = AsgiApp(app, LocalNotifier())

    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            calls = [
                await begun(await stack.enter_async_context(in_flight(host, "/follow")))
                for _ in range(3)
            ]
            response = await requested(host, "GET", "/follow")
            assert response.status == 429
            assert "max_connections_per_address" in response.json()["error"]["error"]
            async with in_flight(host, "/follow", client="10.0.0.2") as other:
                (await begun(other)).hang_up()
            for call in calls:
                call.hang_up()

    asyncio.run(scenario())


def test_excess_long_poll_of_a_user_returns_at_once(app: App) -> None:
    notifier = LocalNotifier()
    host = AsgiApp(app, notifier)

    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            calls = [
                await stack.enter_async_context(in_flight(host, "/poll", headers=signed("ann")))
                for _ in range(2)
            ]
            while notifier.waiting("news") < 2:
                await asyncio.sleep(0)
            response = await asyncio.wait_for(
                requested(host, "GET", "/poll", headers=signed("a task of ann")), 60
            )
            assert response.json() == {"final": True}
            async with in_flight(host, "/poll", headers=signed("bob")) as other:
                while notifier.waiting("news") < 3:
                    await asyncio.sleep(0)
                other.hang_up()
            for call in calls:
                call.hang_up()

    asyncio.run(scenario())


def test_update_websockets_are_limited_by_user(api: Api) -> None:
    user, admin = api.signed_in("determined"), api.signed_in("admin")
    with behind_socket(AsgiApp(api.app, LocalNotifier())) as address, ExitStack() as stack:
        url = f"ws{address[4:]}/stream"
        for _ in range(2):
            stack.enter_context(connect(url, additional_headers=signed(user.token)))
        with pytest.raises(InvalidStatus) as error:
            connect(url, additional_headers=signed(user.token))
        answer = error.value.response
        assert (answer.status_code, answer.headers["Retry-After"]) == (429, "5")
        assert "max_streams_per_user" in json.loads(answer.body or b"")["error"]["error"]
        stack.enter_context(connect(url, additional_headers=signed(admin.token)))


def at_kernel(url: str, caller: Caller) -> ClientConnection:
    headers, protocols = signed(caller.token), [Subprotocol("v1.kernel")]
    return connect(url, additional_headers=headers, subprotocols=protocols)


def test_task_connections_are_limited_by_user(api: Api) -> None:
    with kernel() as port, proxied(api, [{"proxy_port": port}]) as task, ExitStack() as stack:
        url = f"ws://{task.netloc}{task.path(port, '/ws')}"
        for _ in range(2):
            stack.enter_context(at_kernel(url, task.owner))
        with pytest.raises(InvalidStatus) as error:
            at_kernel(url, task.owner)
        assert error.value.response.status_code == 429
        assert task.ask("GET", task.path(port))[0].status == 429
        admin = api.signed_in("admin")
        stack.enter_context(at_kernel(url, admin))


def test_api_limits_forwarded_connections_by_token_or_address(api: Api) -> None:
    """An API does not know the user of a token; the relay knows it and refuses itself."""
    with kernel() as port, ExitStack() as stack:
        ports = [{"proxy_port": port, "unauthenticated": True}]
        task = stack.enter_context(behind_an_api(api, ports))
        url = f"ws://{task.netloc}{task.path(port, '/ws')}"
        admin = api.signed_in("admin")
        for caller in (task.owner, admin, task.owner, admin):
            stack.enter_context(at_kernel(url, caller))
        answer, body = task.ask("GET", task.path(port), signed(admin.token))
        assert answer.status == 429
        assert b"tasks of this token are open" in body
        for _ in range(3):
            stack.enter_context(connect(url, subprotocols=[Subprotocol("v1.kernel")]))
        answer, body = task.ask("GET", task.path(port), {})
        assert answer.status == 429
        assert b"max_connections_per_address" in body


def test_slow_requests_of_one_user_to_tasks_do_not_take_all_threads(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relay learns the user of a token from its own answers."""
    go_on, begun = threading.Event(), threading.Semaphore(0)
    target = proxying.target

    def slow(ctx: Context, service: str, tokens: RequestTokens) -> Target:
        if tokens.bearer != admin.token:
            begun.release()
            go_on.wait(60)
        return target(ctx, service, tokens)

    api.ctx.config = replace(api.ctx.config, max_streams_per_user=0)
    with kernel() as port, proxied(api, [{"proxy_port": port}]) as task, ExitStack() as stack:
        admin = api.signed_in("admin")
        for caller in (task.owner, admin):
            assert task.ask("GET", task.path(port), signed(caller.token))[0].status == REACHED
        monkeypatch.setattr(proxying, "target", slow)
        threads = stack.enter_context(ThreadPoolExecutor(20))
        stack.callback(go_on.set)
        slow_ones = [threads.submit(task.ask, "GET", task.path(port)) for _ in range(20)]
        for _ in range(asgi._OF_ONE_CALLER):
            assert begun.acquire(timeout=60)
        assert task.ask("GET", task.path(port), signed(admin.token))[0].status == REACHED
        go_on.set()
        assert {request.result()[0].status for request in slow_ones} == {REACHED}


@pytest.mark.parametrize(("fronted", "most"), [(True, 0), (False, 3)])
def test_separate_relay_does_not_limit_by_address(
    api: Api, monkeypatch: pytest.MonkeyPatch, fronted: bool, most: int
) -> None:
    """The API and CDNs bring everybody's connections to it."""
    limits: list[int] = []
    monkeypatch.setattr(api_server, "build_context", lambda *_: api.ctx)

    def settings_for(most_of_address: int) -> dict[str, object]:
        limits.append(most_of_address)
        return {}

    monkeypatch.setattr(api_server, "uvicorn_settings", settings_for)
    monkeypatch.setattr(api_server, "gc", MagicMock())
    monkeypatch.setattr(uvicorn.Server, "run", lambda *_, **__: None)
    settings = from_environment(_UNUSED)
    with api_server.listen("127.0.0.1", 0) as listening:
        api_server.serve(
            settings,
            listening,
            LocalNotifier(),
            MagicMock(),
            fronted=fronted,
            app_of=lambda _: api.app,
        )
    assert (limits, api.ctx.config.max_connections_per_address) == ([most], most)
