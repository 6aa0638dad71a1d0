"""Clients know only the API's address. Requests for tasks are forwarded to the relay."""

import http.client
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from det_controlplane.adapters.notifier import LocalNotifier
from det_controlplane.api import routes
from det_controlplane.api.app import App
from det_controlplane.db.engine.database import Database
from det_controlplane.entry.build import build_relay
from det_controlplane.entry.server.asgi import AsgiApp
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from tests.entry.test_relay import PIECE, echoed, web
from tests.entry.test_relay_websockets import echo_bytes, kernel, received, talk_to_kernel
from tests.support.api import Api, Caller, api_over
from tests.support.ports import free_port
from tests.support.relayed import behind_an_api, tcp_server
from tests.support.socket_server import behind_socket

__all__ = ["web"]  # the fixture


@pytest.fixture
def api(database: Database, tmp_path: Path) -> Iterator[Api]:
    with api_over(database, tmp_path) as new_api:
        yield new_api


def test_api_forwards_requests_and_responses_unchanged(api: Api, web: int) -> None:
    with behind_an_api(api, [{"proxy_port": web}]) as task:
        request = echoed(task.ask("GET", task.path(web, "/a%20b?x=1&y=%2F")))
        assert request["path"] == f"/proxy/{task.task}:{web}/a%20b?x=1&y=%2F"
        headers = dict(request["headers"])
        assert (headers["host"], headers["x-forwarded-host"]) == (task.netloc, task.netloc)
        assert task.owner.token not in json.dumps(request)
        assert echoed(task.ask("POST", task.path(web), body=PIECE * 40))["body"] == 40 * len(PIECE)
        chunked = echoed(task.ask("PUT", task.path(web), body=iter([PIECE] * 40)))
        assert chunked["body"] == 40 * len(PIECE)
        answer, body = task.ask("GET", task.path(web, "/large"))
        assert (answer.status, body == PIECE * 64) == (200, True)
        answer, _ = task.ask("GET", f"/proxy/{task.task}?x=1")
        assert (answer.status, answer.getheader("Location")) == (307, f"/proxy/{task.task}/?x=1")
        with pytest.raises(http.client.IncompleteRead):
            task.ask("GET", task.path(web, "/vanish"))


def test_browser_session_of_the_api_is_valid_for_tasks(api: Api, web: int) -> None:
    with behind_an_api(api, [{"proxy_port": web}]) as task:
        cookie = {"Cookie": f"auth={task.owner.token}"}
        own = {**cookie, "Origin": f"http://{task.netloc}", "Sec-Fetch-Site": "same-origin"}
        assert echoed(task.ask("POST", task.path(web), own))["method"] == "POST"
        evil = {**cookie, "Origin": "https://evil.example"}
        assert task.ask("POST", task.path(web), evil)[0].status == 403
        # A cookie that the relay gives for a task's address comes back to it.
        answer, _ = task.ask("GET", task.path(web, f"/?token={task.token}"), {})
        task_cookie = (answer.getheader("Set-Cookie") or "").partition(";")[0]
        assert echoed(task.ask("GET", task.path(web), {"Cookie": task_cookie}))["method"] == "GET"
        assert task.ask("GET", task.path(web), {})[0].status == 401


def test_relay_accepts_only_the_clusters_host_as_origin(api: Api, web: int) -> None:
    with behind_an_api(api, [{"proxy_port": web, "unauthenticated": True}]) as task:
        front, relay = task.netloc, replace(task, address=task.relay)
        for host, forwarded_host, status in (
            (front, front, 202),
            ("evil.example", "evil.example", 403),
            (front, "evil.example", 403),
        ):
            headers = {"Origin": f"http://{host}", "X-Forwarded-Host": forwarded_host}
            assert relay.ask("POST", task.path(web), headers)[0].status == status


def test_api_forwards_websocket_messages(api: Api) -> None:
    with kernel() as port, behind_an_api(api, [{"proxy_port": port}]) as task:
        url = f"ws://{task.netloc}{task.path(port, '/ws')}"
        page = {"Cookie": f"auth={task.owner.token}", "Origin": f"http://{task.netloc}"}
        talk_to_kernel(url, page)
        with pytest.raises(InvalidStatus, match="403"):
            connect(url, additional_headers={**page, "Origin": "https://evil.example"}).close()


def test_api_forwards_shell_bytes(api: Api) -> None:
    with (
        tcp_server(echo_bytes) as port,
        behind_an_api(api, [{"proxy_port": port, "proxy_tcp": True}]) as t,
    ):
        url = f"ws://{t.netloc}{t.path(port)}"
        halves = [Subprotocol("tcp.determined")]
        with connect(url, subprotocols=halves, additional_headers=t.signed()) as client:
            client.send(PIECE * 8)
            client.send(b"")
            assert received(client) == PIECE * 8 + b" and out"


def test_unreachable_relay_is_reported(api: Api) -> None:
    relay_url = f"http://127.0.0.1:{free_port()}"
    ctx = replace(api.ctx, host=replace(api.ctx.host, relay_url=relay_url, carries_traffic=False))
    front = AsgiApp(App(ctx, api.app.router), LocalNotifier(), relays=False)
    with behind_socket(front) as address:
        with pytest.raises(HTTPError, match="502") as error:
            urlopen(f"{address}/proxy/task/", timeout=60)
        assert "cannot be reached" in error.value.read().decode()
        error.value.close()


def test_relay_serves_no_other_api_routes(api: Api) -> None:
    api.ctx.host.public_url = "https://cluster.example"
    relay = Caller(build_relay(api.ctx), api.signed_in("determined").token)
    assert relay.get("/info")["cluster_id"] == api.ctx.cluster_id
    others = {(r.method, r.path) for r in routes.every() if r.path not in ("/info", "/health")}
    assert len(others) > 200
    for method, path in (("GET", "/"), *others):
        response = relay.ask(method, path)
        assert response.status == 404, f"{method} {path}"
        assert "https://cluster.example" in response.error
