"""A relay with a replaced program ends to be started again, after its connections or a warning."""

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from det_controlplane.db.engine.database import Database
from det_controlplane.entry.container import main, relay_end
from det_controlplane.entry.container.relay_end import RENEWED, Renewal, deployed
from det_controlplane.services.context import Host
from det_controlplane.services.tasks import proxying
from websockets.sync.client import connect

from tests.support.api import Api, api_over
from tests.support.relayed import proxied, tcp_server


@pytest.fixture
def api(database: Database, tmp_path: Path) -> Iterator[Api]:
    with api_over(database, tmp_path) as new_api:
        yield new_api


class RenewedRelay:
    """A relay with connections to some tasks; each of its checks finds the next of these versions."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *versions: str, own: str = "") -> None:
        self.open: list[str] = []
        self.told: list[list[str]] = []
        self.ended = 0
        deployed_versions = iter(versions)
        ctx = SimpleNamespace(host=Host(open_traffic=lambda: list(self.open)))
        self.renewal = Renewal(cast(Any, ctx), lambda: next(deployed_versions), self._end, own)
        monkeypatch.setattr(
            proxying, "add_log_line", lambda _, tasks, line: self.told.append(list(tasks))
        )

    def _end(self) -> None:
        self.ended += 1


def test_idle_relay_ends_when_a_newer_version_is_deployed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    played = RenewedRelay(monkeypatch, "old", "old", "", "new")
    for ended_connections in (0, 0, 0, 1):
        played.renewal.step()
        assert played.ended == ended_connections
    assert played.told == []


def test_version_deployed_before_the_first_check_is_newer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    played = RenewedRelay(monkeypatch, "new", own="old")
    played.renewal.step()
    assert played.ended == 1


def test_open_connections_are_notified_once_and_delay_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    played = RenewedRelay(monkeypatch, "old", "new")
    played.open = ["a-task"]
    for _ in range(4):
        played.renewal.step()
    assert (played.ended, played.told) == (0, [["a-task"]])
    played.open = []
    played.renewal.step()
    assert played.ended == 1


def test_open_connections_delay_the_end_only_for_a_limited_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(relay_end, "NOTICE_S", 0.0)
    played = RenewedRelay(monkeypatch, "old", "new")
    played.open = ["a-task"]
    for ended_connections in (0, 0, 1):
        played.renewal.step()
        assert played.ended == ended_connections


def test_open_connections_are_listed_by_task_and_notified_in_its_log(
    api: Api,
) -> None:
    def echo(connection: socket.socket) -> None:
        while part := connection.recv(1 << 10):
            connection.sendall(part)

    with (
        tcp_server(echo) as port,
        proxied(api, [{"proxy_port": port, "proxy_tcp": True}]) as task,
    ):
        assert set(api.ctx.host.open_traffic()) == set()
        url = f"ws://{task.netloc}{task.path(port)}"
        with connect(url, additional_headers=task.signed()) as client:
            client.send(b"x")
            assert client.recv(60) == b"x"
            assert set(api.ctx.host.open_traffic()) == {task.task}
        proxying.add_log_line(api.ctx, [task.task], "open it again")
        lines = task.owner.lines(f"/api/v1/tasks/{task.task}/logs")
        assert "open it again" in json.dumps(lines)


@pytest.fixture
def function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A function as AWS's command describes it. The next call returns the changes."""
    configuration: dict[str, Any] = {
        "CodeSha256": "a", "Runtime": "python3.12", "Environment": {"Variables": {"A": "1"}},
    }  # fmt: skip
    description_file = tmp_path / "function.json"
    command = tmp_path / "aws"
    command.write_text(f"#!/bin/sh\ncat {description_file}\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    class Kept(dict[str, Any]):
        def __setitem__(self, name: str, value: Any) -> None:
            super().__setitem__(name, value)
            description_file.write_text(json.dumps({"Configuration": dict(self)}))

    stored_configuration = Kept(configuration)
    stored_configuration["RevisionId"] = "1"
    return stored_configuration


def test_version_depends_on_program_python_and_settings_after_an_update(
    function: dict[str, Any],
) -> None:
    first = deployed("f")
    function["RevisionId"] = "2"
    assert deployed("f") == first
    function["LastUpdateStatus"] = "InProgress"
    assert deployed("f") == ""
    function["LastUpdateStatus"] = "Successful"
    versions = {first}
    for name, value in (
        ("CodeSha256", "b"), ("Runtime", "python3.13"), ("Environment", {"Variables": {"A": "2"}}),
    ):  # fmt: skip
        function[name] = value
        versions.add(deployed("f"))
    assert len(versions) == 4


FETCHED = {"CodeSha256": "a", "Runtime": "python3.12", "Environment": {"Variables": {"A": "1"}}}


@pytest.mark.parametrize(
    ("fetched", "deployed_versions"),
    [("", ["old", "new"]), (json.dumps(FETCHED), ["another than it was fetched"])],
)
def test_replaced_relay_exits_with_the_restart_status(
    monkeypatch: pytest.MonkeyPatch, fetched: str, deployed_versions: list[str]
) -> None:
    ended, versions = threading.Event(), iter(deployed_versions)
    monkeypatch.setenv("DET_RELAY_DEPLOYED", fetched)
    monkeypatch.setattr(relay_end, "end_process", ended.set)
    monkeypatch.setattr(relay_end, "LOOKS_FOR_VERSION_EVERY_S", 0.0)
    monkeypatch.setattr(main, "deployed", lambda _: next(versions))
    monkeypatch.setenv("DET_DB_URL", "postgresql://x")
    monkeypatch.setenv("DET_RELAY_FUNCTION", "f")

    def serve(_: object, beside: Any, **__: object) -> None:
        with beside(SimpleNamespace(host=Host()), None):
            assert ended.wait(60)

    monkeypatch.setattr(main, "_serve", serve)
    with pytest.raises(SystemExit) as exit:
        main._relay()
    assert exit.value.code == RENEWED != 0
