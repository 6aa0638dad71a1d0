"""Requests for websockets at paths without one."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from det_controlplane.adapters.notifier import LocalNotifier
from det_controlplane.db.engine.database import Database
from det_controlplane.entry.server.asgi import AsgiApp
from websockets.exceptions import InvalidStatus
from websockets.http11 import Response
from websockets.sync.client import connect

from tests.support.api import Api, api_over
from tests.support.socket_server import behind_socket


@pytest.fixture
def api(database: Database, tmp_path: Path) -> Iterator[Api]:
    with api_over(database, tmp_path) as new_api:
        yield new_api


def test_rejects_a_websocket_at_an_unserved_path(
    api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with behind_socket(AsgiApp(api.app, LocalNotifier())) as address:
        response = refusal(f"ws{address[4:]}/api/v1/x?token=s3")
    assert response.status_code == 404
    assert b"no websocket is served at this path" in (response.body or b"")
    assert "s3" not in caplog.text


def refusal(url: str) -> Response:
    with pytest.raises(InvalidStatus) as error, connect(url):
        pass
    return error.value.response
