"""Cloud Run may run two instances of the relay during a replacement: agents and clients may reach different ones.

An open websocket stays with its instance, for as long as a request may last. New requests reach the newer instance.
"""

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from det_controlplane.adapters.notifier import LocalNotifier
from det_controlplane.db.engine.database import Database
from det_controlplane.entry.relay import agents
from det_controlplane.entry.server.asgi import AsgiApp

from tests.entry.test_relay import echoed, web
from tests.support.api import Api, api_over
from tests.support.processes import eventually
from tests.support.relayed import Proxied, proxied, tcp_server
from tests.support.socket_server import behind_socket

__all__ = ["web"]  # the fixture


class Front:
    """The address of a service. New connections reach its newest instance; open connections keep their instance."""

    def __init__(self) -> None:
        self.instance = ""
        self.carried: list[str] = []

    def carry(self, client: socket.socket) -> None:
        host, _, port = self.instance.removeprefix("http://").rpartition(":")
        self.carried.append(self.instance)
        with socket.create_connection((host, int(port))) as behind:
            back = threading.Thread(target=pump, args=(behind, client))
            back.start()
            pump(client, behind)
            back.join()


def pump(source: socket.socket, target: socket.socket) -> None:
    try:
        while part := source.recv(65536):
            target.sendall(part)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        for end in (source, target):
            end.close()


@pytest.fixture
def api(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    for name in ("ARRIVAL_S", "NOTICE_S"):
        monkeypatch.setattr(agents, name, 0.2)
    with api_over(database, tmp_path) as new_api:
        yield new_api


@contextmanager
def replacing(api: Api, port: int) -> Iterator[tuple[Proxied, Front, str]]:
    """Run a task behind the front; yield it with the address of a second instance."""
    front = Front()
    with ExitStack() as stack:
        address = f"http://127.0.0.1:{stack.enter_context(tcp_server(front.carry))}"
        second = stack.enter_context(behind_socket(AsgiApp(api.app, LocalNotifier())))
        task = stack.enter_context(proxied(api, [{"proxy_port": port}]))
        front.instance, api.ctx.host.relay_url = task.address, address
        task = replace(task, address=address)
        task.agent.poll()
        task.connection.set_address(task.agent.told["relay"])
        assert eventually(lambda: answers(task, port))
        task.agent.poll()
        yield task, front, second


def answers(task: Proxied, port: int) -> bool:
    return task.ask("GET", task.path(port))[0].status == 202


def test_agent_connects_to_the_instance_that_clients_reach(api: Api, web: int) -> None:
    with replacing(api, web) as (task, front, second):
        before = task.agent.told["relay"]
        front.instance = second
        answer, body = task.ask("GET", task.path(web))
        assert (answer.status, b"is not connected to the relay" in body) == (502, True)
        task.agent.poll()
        assert task.agent.told["relay"] != before
        task.connection.set_address(task.agent.told["relay"])
        assert eventually(lambda: answers(task, web))
        assert echoed(task.ask("GET", task.path(web)))["method"] == "GET"


def test_long_poll_returns_when_the_relay_misses_the_agent(api: Api, web: int) -> None:
    with replacing(api, web) as (task, front, second):
        version = task.agent.told["version"]
        task.agent.poll()
        assert task.agent.told["version"] == version, "the response has not changed"
        front.instance = second
        task.ask("GET", task.path(web))
        task.agent.poll()
        assert task.agent.told["version"] != version


def test_repeated_requests_give_a_missing_agent_one_address(api: Api, web: int) -> None:
    with replacing(api, web) as (task, front, second):
        front.instance = second
        addresses = set()
        for _ in range(3):
            assert not answers(task, web)
            task.agent.poll()
            addresses.add(task.agent.told["relay"])
        assert len(addresses) == 1
