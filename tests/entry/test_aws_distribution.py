"""A cluster on AWS with a relay has one address: functions answer there, and shells go to the relay's machine."""

import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from det_agent.relay import RelayConnection
from det_controlplane.db.engine.database import Database
from det_controlplane.services.context import RELAY_PATH
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from tests.entry.test_aws_relay import PYTHON, environment_with_function, script, settings
from tests.entry.test_relay import PIECE
from tests.entry.test_relay_websockets import echo_bytes, received
from tests.support.api import Api, Caller, api_over, create, trial_of
from tests.support.distribution import VIEWER, distribution
from tests.support.lambda_events import Http, answered, function_url_event
from tests.support.lambda_front import function_url
from tests.support.lambda_runtime import LambdaRuntime
from tests.support.played_agent import PlayedAgent
from tests.support.ports import free_port
from tests.support.processes import eventually
from tests.support.relayed import tcp_server

SECRET = "the secret of the distribution"


@dataclass
class Cluster:
    """The one address of a cluster with the API as a function and the relay as a machine."""

    address: str
    events: list[Mapping[str, Any]]  # received by the function
    log: Path


@pytest.fixture
def cluster(
    task_root: Path, deployment_zip: Path, environment: dict[str, str], tmp_path: Path
) -> Iterator[Cluster]:
    front, port, log = free_port(), free_port(), tmp_path / "relay.log"
    address = f"http://127.0.0.1:{front}"
    (tmp_path / "determined-relay").write_text(script(tmp_path / "task"))
    variables = {
        **settings(environment, tmp_path / "task", port),
        "DET_PUBLIC_URL": address,
        "DET_RELAY_IDLE_S": "600",
    }
    environment_of_relay = environment_with_function(tmp_path, deployment_zip, variables)
    of_api = {**environment, "DET_RELAY_URL": "/", "DET_FRONT_SECRET": SECRET}
    events: list[Mapping[str, Any]] = []
    with ExitStack() as stack:
        function = stack.enter_context(LambdaRuntime(task_root, "app.app", of_api))

        def answer(http: Http) -> Any:
            events.append(function_url_event(http))
            return answered(function.invoke(events[-1]))

        api = stack.enter_context(function_url(answer))
        output = stack.enter_context(log.open("wb"))
        relay = subprocess.Popen(
            [PYTHON, tmp_path / "determined-relay"],
            env=environment_of_relay,
            stdout=output,
            stderr=output,
        )
        stack.callback(relay.wait)
        stack.callback(relay.kill)
        stack.enter_context(distribution(api, f"http://127.0.0.1:{port}", SECRET, front))
        yield Cluster(address, events, log)


@pytest.mark.slow
def test_shell_bytes_pass_through_distribution_relay_and_agent(
    cluster: Cluster, database: Database, tmp_path: Path
) -> None:
    with api_over(database, tmp_path) as api, tcp_server(echo_bytes) as port:
        owner, agent = api.signed_in("determined"), PlayedAgent(api, "agent")
        check_function_routes(cluster)
        task, container = running(api, owner, agent, [{"proxy_port": port, "proxy_tcp": True}])

        def addresses(container_id: str, size: int) -> list[tuple[str, int]]:
            return [("127.0.0.1", size)] if (container_id, size) == (container, port) else []

        connection = RelayConnection(cluster.address, {}, lambda: agent.caller.token, addresses)
        try:
            connection.set_address(RELAY_PATH)
            url = f"ws{cluster.address.removeprefix('http')}/proxy/{task}:{port}/"
            assert eventually(lambda: echoes(url, owner), 120), cluster.log.read_text()
        finally:
            connection.stop()


def check_function_routes(cluster: Cluster) -> None:
    with urllib.request.urlopen(f"{cluster.address}/info", timeout=60) as answer:
        assert answer.status == 200
    (event,) = cluster.events
    headers = {name.lower(): value for name, value in event["headers"].items()}
    assert (headers["x-det-viewer"], headers["x-det-front"]) == (VIEWER, SECRET)
    assert headers["x-forwarded-host"] == cluster.address.removeprefix("http://")


def running(
    api: Api, owner: Caller, agent: PlayedAgent, ports: list[dict[str, Any]]
) -> tuple[str, str]:
    """Let a task with ports run on an agent; return it, and its container."""
    experiment = create(owner, activate=True, environment={"proxy_ports": ports})
    agent.join()
    api.tick()
    (order,) = agent.poll()
    agent.poll()
    return str(trial_of(owner, experiment)["taskId"]), str(order["id"])


def echoes(url: str, owner: Caller) -> bool:
    """Send bytes through a tunnel, and return whether they come back."""
    headers = {"Authorization": f"Bearer {owner.token}"}
    halves = [Subprotocol("tcp.determined")]
    try:
        with connect(url, subprotocols=halves, additional_headers=headers) as client:
            client.send(PIECE * 8)
            client.send(b"")
            return bool(received(client) == PIECE * 8 + b" and out")
    except (OSError, WebSocketException):  # the relay, or the agent at it, is not there yet
        return False
