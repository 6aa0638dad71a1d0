"""Open connections to a task end with the sign-in that opened them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from det_controlplane.core.config.cluster import Authz
from det_controlplane.db.engine.database import Database
from det_controlplane.entry.relay import permits
from det_controlplane.services.tasks import proxying
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect
from websockets.sync.server import ServerConnection

from tests.entry.test_relay_under_strain import echo, url
from tests.entry.test_relay_websockets import websocket_server
from tests.support.api import Api, Caller, api_over
from tests.support.relayed import Proxied, proxied, tcp_server

V = "/api/v1"


@pytest.fixture
def api(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    monkeypatch.setattr(permits, "CHECKED_EVERY_S", 0.05)
    with api_over(database, tmp_path) as new_api:
        yield new_api


@contextmanager
def tunnel(task: Proxied, port: int, token: str) -> Iterator[ClientConnection]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with connect(url(task, port), additional_headers=headers, open_timeout=60) as client:
        assert answers(client)
        yield client


def answers(client: ClientConnection) -> bool:
    client.send(b"x")
    return client.recv(60) == b"x"


def ends(client: ClientConnection) -> bool:
    with pytest.raises(ConnectionClosed):
        client.recv(60)
    return True


def access_token(api: Api) -> tuple[str, int]:
    body = {"userId": api.signed_in("determined").get(f"{V}/me")["user"]["id"], "lifespan": "24h"}
    caller = api.signed_in("determined").post(f"{V}/tokens", body)
    return str(caller["token"]), int(caller["tokenId"])


def sign_out(api: Api, token: str) -> None:
    api.with_token(token).post(f"{V}/auth/logout", {})


def deactivate(api: Api, token: str) -> None:
    me = api.with_token(token).get(f"{V}/me")["user"]["id"]
    api.signed_in("admin").done("PATCH", f"{V}/users/{me}", {"active": False})


@pytest.mark.parametrize("unauthenticated", [False, True])
@pytest.mark.parametrize("deed", [sign_out, deactivate])
def test_tunnel_ends_with_the_sign_in_that_opened_it(
    api: Api, deed: Any, unauthenticated: bool
) -> None:
    """This includes the tunnel to a shell, which accepts every holder of its key."""
    port_of = {"proxy_tcp": True, "unauthenticated": unauthenticated}
    with tcp_server(echo) as port, proxied(api, [{"proxy_port": port, **port_of}]) as task:
        session = api.signed_in("determined").token
        other = Caller(task.owner.app, api.signed_in("admin").token)
        with tunnel(task, port, session) as own, tunnel(task, port, other.token) as admins:
            deed(api, session)
            assert ends(own)
            assert answers(admins)


def test_websocket_ends_with_the_sign_in_that_opened_it(api: Api) -> None:
    def again(ws: ServerConnection) -> None:
        for message in ws:
            ws.send(message)

    with websocket_server(again) as port, proxied(api, [{"proxy_port": port}]) as task:
        session = api.signed_in("determined").token
        with tunnel(task, port, session) as own, tunnel(task, port, task.owner.token) as other:
            sign_out(api, session)
            assert ends(own)
            assert answers(other)


def test_tunnel_ends_when_its_access_token_is_revoked(api: Api) -> None:
    token, id = access_token(api)
    with (
        tcp_server(echo) as port,
        proxied(api, [{"proxy_port": port, "proxy_tcp": True}]) as task,
        tunnel(task, port, token) as client,
    ):
        api.signed_in("determined").done("PATCH", f"{V}/tokens/{id}", {"setRevoked": True})
        assert ends(client)


def test_tunnel_ends_when_its_user_can_no_longer_see_the_task(api: Api) -> None:
    with (
        tcp_server(echo) as port,
        proxied(api, [{"proxy_port": port, "proxy_tcp": True}]) as task,
        tunnel(task, port, api.signed_in("determined").token) as own,
        tunnel(task, port, api.signed_in("admin").token) as admins,
    ):
        api.ctx.config = replace(api.ctx.config, authz=Authz.RBAC)
        assert ends(own)
        assert answers(admins)


def test_anonymous_tunnel_ends_when_the_task_owner_is_deactivated(
    api: Api,
) -> None:
    port_of = {"proxy_tcp": True, "unauthenticated": True}
    with (
        tcp_server(echo) as port,
        proxied(api, [{"proxy_port": port, **port_of}]) as task,
        tunnel(task, port, "") as stranger,
    ):
        sign_out(api, task.owner.token)
        with tunnel(task, port, api.signed_in("determined").token) as own:
            deactivate(api, api.signed_in("determined").token)
            assert ends(own)
        assert ends(stranger)


def test_additional_tokens_cause_no_further_checks(api: Api) -> None:
    """Clients make up as many tokens as they like, and each check reads the database."""
    with (
        tcp_server(echo) as port,
        proxied(api, [{"proxy_port": port, "proxy_tcp": True}]) as task,
    ):
        token, service = api.signed_in("determined").token, f"{task.task}:{port}"
        opened = [
            proxying.target(api.ctx, service, proxying.RequestTokens(**carried))
            for carried in (
                {"bearer": token},
                {"bearer": token, "in_address": "made-up"},
                {"bearer": token, "cookies": ("other",), "allocation": "x", "kept": "y"},
            )
        ]
        assert {target.opened_by for target in opened} == {proxying.RequestTokens(bearer=token)}
        for target in opened:
            connection = (api.ctx, service, target.opened_by, target.session_id)
            assert proxying.is_still_open(*connection)
