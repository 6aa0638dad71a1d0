"""The stream of changes over a websocket."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from det_controlplane.adapters.notifier import LocalNotifier
from det_controlplane.db.engine.database import Database
from det_controlplane.entry.server.asgi import AsgiApp
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.support.api import Api, Caller, api_over
from tests.support.socket_server import behind_socket

PROJECTS = {"sync_id": "1", "subscribe": {"projects": {}}}


@pytest.fixture
def api(database: Database, tmp_path: Path) -> Iterator[Api]:
    with api_over(database, tmp_path) as new_api:
        yield new_api


@pytest.fixture
def user(api: Api) -> Caller:
    return api.signed_in("determined")


@pytest.fixture
def address(api: Api) -> Iterator[str]:
    with behind_socket(AsgiApp(api.app, LocalNotifier())) as server:
        yield f"ws{server[4:]}"


def connected(address: str, user: Caller, origin: Any = None) -> ClientConnection:
    headers = {"Authorization": f"Bearer {user.token}"}
    return connect(f"{address}/stream", additional_headers=headers, origin=origin)


def received(socket: ClientConnection) -> Any:
    return json.loads(socket.recv(timeout=60))


def subscribe(socket: ClientConnection, subscription: dict[str, Any]) -> list[Any]:
    """Send a subscription and return its first messages."""
    socket.send(json.dumps(subscription))
    messages = [received(socket)]
    while not messages[-1].get("complete"):
        messages.append(received(socket))
    return messages


def last_words(socket: ClientConnection) -> tuple[list[Any], int]:
    """Return the messages until the connection is closed, and the code of the closing."""
    words = []
    try:
        while True:
            words.append(received(socket))
    except ConnectionClosed as e:
        return words, e.rcvd.code if e.rcvd else 0


def test_changes_arrive_as_messages(address: str, user: Caller) -> None:
    with connected(address, user) as socket:
        assert len(subscribe(socket, PROJECTS)) == 3
        workspace_id = user.post("/api/v1/workspaces", {"name": "zoo"})["workspace"]["id"]
        user.post(f"/api/v1/workspaces/{workspace_id}/projects", {"name": "cats"})
        assert received(socket)["project"]["name"] == "cats"


def test_new_subscription_replaces_the_previous_one(address: str, user: Caller) -> None:
    with connected(address, user) as socket:
        subscribe(socket, PROJECTS)
        first_change, last_change = subscribe(socket, {"sync_id": "2", "subscribe": {"models": {}}})
        assert (first_change["sync_id"], last_change["sync_id"]) == ("2", "2")
        user.post("/api/v1/models", {"name": "resnet"})
        assert received(socket)["model"]["name"] == "resnet"


@pytest.mark.parametrize("message", ["{", '{"subscribe": {"projects": []}}', "x" * 70_000])
def test_unreadable_message_closes_the_connection_with_a_reason(
    address: str, user: Caller, message: str
) -> None:
    with connected(address, user) as socket:
        socket.send(message)
        words, code = last_words(socket)
    if len(message) > 65_536:
        assert (words, code) == ([], 1009)
    else:
        assert ([word["error"]["code"] for word in words], code) == ([3], 1008)


def test_connection_ends_with_its_session(address: str, user: Caller) -> None:
    with connected(address, user) as socket:
        subscribe(socket, PROJECTS)
        user.post("/api/v1/auth/logout")
        words, _ = last_words(socket)
    assert [word["error"]["httpCode"] for word in words] == [401]


def test_rejects_callers_without_a_session_and_pages_of_other_sites(
    address: str, user: Caller
) -> None:
    with pytest.raises(InvalidStatus) as stranger, connect(f"{address}/stream"):
        pass
    assert stranger.value.response.status_code == 401
    with (
        pytest.raises(InvalidStatus) as page,
        connected(address, user, origin="https://evil.example"),
    ):
        pass
    assert page.value.response.status_code == 403
    own = f"http{address[2:]}"
    with connected(address, user, origin=own) as socket:
        assert subscribe(socket, PROJECTS)
