"""A running task with ports behind the relay. All parts are real except the container."""

import http.client
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from det_agent.relay import RelayConnection
from det_controlplane.adapters.notifier import LocalNotifier
from det_controlplane.api.app import App
from det_controlplane.entry.server.asgi import AsgiApp
from det_controlplane.services.context import RELAY_PATH

from tests.support.api import Api, Caller, create, trial_of
from tests.support.played_agent import PlayedAgent
from tests.support.ports import free_port
from tests.support.socket_server import behind_socket

Headers = dict[str, str]


@dataclass
class Proxied:
    """A task, the addresses of the API and the relay, and the ports on which its container listens."""

    api: Api
    address: str
    relay: str
    task: str
    token: str  # of the task itself
    owner: Caller
    agent: PlayedAgent
    connection: RelayConnection

    @property
    def netloc(self) -> str:
        return urlsplit(self.address).netloc

    def path(self, port: int, rest: str = "/") -> str:
        return f"/proxy/{self.task}:{port}{rest}"

    def signed(self, **more: str) -> Headers:
        return {"Authorization": f"Bearer {self.owner.token}", **more}

    def ask(
        self, method: str, path: str, headers: Headers | None = None, body: Any = None
    ) -> tuple[http.client.HTTPResponse, bytes]:
        connection = http.client.HTTPConnection(self.netloc, timeout=60)
        try:
            request_headers = self.signed() if headers is None else headers
            connection.request(method, path, body, request_headers)
            answer = connection.getresponse()
            return answer, answer.read()
        finally:
            connection.close()


@contextmanager
def proxied(api: Api, ports: list[dict[str, Any]]) -> Iterator[Proxied]:
    """Run a task with proxied ports on an agent that is connected to the relay."""
    owner = api.signed_in("determined")
    experiment = create(owner, activate=True, environment={"proxy_ports": ports})
    agent = PlayedAgent(api, "agent")
    agent.join()
    api.tick()
    (order,) = agent.poll()
    agent.poll()
    container = order["id"]
    allowed = {p["proxy_port"] for p in ports}

    def addresses(name: str, port: int) -> list[tuple[str, int]]:
        return [("127.0.0.1", port)] if name == container and port in allowed else []

    with ExitStack() as stack:
        address = stack.enter_context(behind_socket(AsgiApp(api.app, LocalNotifier())))
        connection = RelayConnection(address, {}, lambda: agent.caller.token, addresses)
        stack.callback(connection.stop)
        connection.set_address(RELAY_PATH)
        task = trial_of(owner, experiment)["taskId"]
        token = order["spec"]["session_token"]
        yield Proxied(api, address, address, task, token, owner, agent, connection)


@contextmanager
def behind_an_api(api: Api, ports: list[dict[str, Any]]) -> Iterator[Proxied]:
    """Serve the ports behind an API that is not the relay to which the agent is connected."""
    port = free_port()
    api.ctx.host.public_url = f"http://127.0.0.1:{port}"
    with ExitStack() as stack:
        task = stack.enter_context(proxied(api, ports))
        ctx = replace(
            api.ctx, host=replace(api.ctx.host, relay_url=task.address, carries_traffic=False)
        )
        front = AsgiApp(App(ctx, api.app.router), LocalNotifier(), relays=False)
        yield replace(task, address=stack.enter_context(behind_socket(front, port)))


@contextmanager
def tcp_server(serve: Callable[[socket.socket], None], port: int = 0) -> Iterator[int]:
    """Serve each connection in a thread; give the port."""
    listening = socket.create_server(("127.0.0.1", port), backlog=1024)
    threads: list[threading.Thread] = []

    def served(connection: socket.socket) -> None:
        with connection:
            serve(connection)

    def accept() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            threads.append(threading.Thread(target=served, args=(connection,)))
            threads[-1].start()

    accepting = threading.Thread(target=accept)
    accepting.start()
    try:
        yield listening.getsockname()[1]
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        accepting.join()
        for thread in threads:
            thread.join()
