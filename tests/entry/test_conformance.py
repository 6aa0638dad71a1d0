"""One API on every host: the same requests, by ASGI and by each kind of Lambda event."""

import importlib.metadata
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest
from det_controlplane.adapters import own_wheel
from det_controlplane.adapters.notifier import LocalNotifier
from det_controlplane.api.app import App
from det_controlplane.entry.aws.events import respond
from det_controlplane.entry.build import build_app, build_context
from det_controlplane.entry.server.asgi import AsgiApp
from det_controlplane.entry.settings import Settings
from det_controlplane.ports.waker import NoWaker
from det_controlplane.services.cluster.first_start import store_first_password

from tests.support.asgi import request
from tests.support.lambda_events import (
    Http,
    answered,
    function_url_event,
    http_api_event,
    rest_event,
)

Answered = tuple[int, dict[str, str], bytes]
Door = Callable[[App, Http], Answered]

WHEEL = own_wheel.InstalledWheel(importlib.metadata.version(own_wheel.DISTRIBUTION))
REQUESTS = (
    Http("GET", "/info"),
    Http("HEAD", "/info"),
    Http("GET", "/info/"),
    Http("GET", "/health"),
    Http("GET", "/api/v1/master"),
    Http("GET", "/api/v1/master/?pretty=true"),
    Http("GET", "/"),
    Http("GET", "/no/such/path"),
    Http("PATCH", "/info"),
    Http("GET", "/api/v1/me"),
    Http("GET", "/api/v1/me", headers=(("Authorization", "Bearer wrong"),)),
    Http("GET", "/api/v1/me", headers=(("Cookie", "a=b; auth=wrong"),)),
    Http("POST", "/api/v1/auth/login", b"not json"),
    Http("POST", "/api/v1/auth/login", b"[]"),
    Http("POST", "/api/v1/auth/login"),
    Http("POST", "/api/v1/auth/login", b'{"username":"nobody","password":"x"}'),
    Http("POST", "/api/v1/auth/login", b"\xff\xfe", (("Content-Encoding", "gzip"),)),
    Http("GET", "/api/v1/experiments/1?x=1&x=2&empty="),
    Http("GET", "/api/v1/experiments/%31"),
    Http("GET", "/api/v1/trials/a%20b%3F"),
    Http("POST", "/agents/v1/poll", b"{}"),
    Http("POST", "/agents/v1/join", b'{"agent_id":"x"}'),
    Http("GET", "/agents/v1/wheel"),
    Http("GET", "/agents/v1/wheel/"),
    Http("GET", f"/agents/v1/wheel/{WHEEL.name()}"),
    Http("HEAD", f"/agents/v1/wheel/{WHEEL.name()}"),
    Http("GET", "/agents/v1/wheel/constraints.txt"),
    Http("GET", "/agents/v1/wheel/determined_serverless-0.0.0-py3-none-any.whl"),
    Http("PUT", "/objects/contexts/x?size=1&expires=1&signature=00", b"\x00"),
    Http("GET", "/api/v1/tasks/none/logs"),
)


def by_asgi(app: App, http: Http) -> Answered:
    response = request(
        AsgiApp(app, LocalNotifier()),
        http.method,
        http.target,
        body=http.body,
        headers=dict(http.headers),
        client="203.0.113.9",
    )
    return response.status, response.headers, response.raw


def by_event(shape: Callable[[Http], dict[str, Any]]) -> Door:
    return lambda app, http: answered(respond(app, shape(http)))


EVENTS = {
    "rest": by_event(rest_event),
    "http-api": by_event(http_api_event),
    "stage": by_event(lambda http: http_api_event(http, stage="prod")),
    "function-url": by_event(function_url_event),
}


@pytest.fixture
def app(database_url: str, tmp_path: Path) -> Iterator[App]:
    settings = Settings(database_url, objects=str(tmp_path), objects_secret="s")
    asgi_app = build_app(build_context(settings, NoWaker()))
    yield asgi_app
    asgi_app.ctx.db.dispose()


def test_start_logs_settings_without_effect(
    database_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings(database_url, objects=str(tmp_path), objects_secret="s")
    config = "{telemetry: {enabled: true}}"
    build_context(replace(settings, cluster_config=config), NoWaker()).db.dispose()
    assert "telemetry.enabled of the cluster configuration has no effect here" in caplog.messages


@pytest.mark.parametrize("door", EVENTS)
def test_all_hosts_return_the_same_responses(app: App, door: str) -> None:
    for http in REQUESTS:
        expected, response = by_asgi(app, http), EVENTS[door](app, http)
        assert comparable(response) == comparable(expected), http


@pytest.mark.parametrize("path", ["/agents/v1/wheel", "/agents/v1/wheel/"])
def test_wheel_path_redirects_to_the_newest_wheel(app: App, path: str) -> None:
    status, headers, _ = by_asgi(app, Http("GET", path))
    assert status == 302
    wheel_url = urljoin(f"https://cluster.example/stage{path}", headers["location"])
    assert wheel_url == f"https://cluster.example/stage/agents/v1/wheel/{WHEEL.name()}"
    assert (
        by_asgi(app, Http("GET", urlsplit(wheel_url).path.removeprefix("/stage")))[2]
        == WHEEL.content()
    )


def test_all_hosts_return_the_same_responses_to_signed_in_users(app: App) -> None:
    store_first_password(app.ctx.db, "Password1")
    login = Http("POST", "/api/v1/auth/login", b'{"username":"determined","password":"Password1"}')
    status, _, body = by_asgi(app, login)
    assert status == 200, body
    bearer = (("Authorization", f"Bearer {json.loads(body)['token']}"),)
    for path in ("/api/v1/me", "/api/v1/experiments?limit=2", "/api/v1/users", "/api/v1/agents"):
        http = Http("GET", path, headers=bearer)
        expected = by_asgi(app, http)
        assert expected[0] == 200, expected
        for door in EVENTS.values():
            assert comparable(door(app, http)) == comparable(expected), path


def comparable(answer: Answered) -> tuple[int, dict[str, str], bytes]:
    """Lambda's gateways count the length themselves."""
    status, headers, body = answer
    return status, {k: v for k, v in headers.items() if k != "content-length"}, body
