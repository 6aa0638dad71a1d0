"""A trial's ports are reached through a whole cluster: by HTTP, by our tunnel, and by Determined's own."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
import yaml

from tests.support.cluster import DET, Cluster, local_cluster
from tests.support.ports import free_port
from tests.support.stock import stock_client

pytestmark = pytest.mark.slow
SERVE = """
import http.server, socket, sys, threading
web, echo = map(int, sys.argv[1:])

def repeat(connection):
    while part := connection.recv(65536):
        connection.sendall(part)
    connection.close()

def serve_echo(listening):
    while True:
        threading.Thread(target=repeat, args=(listening.accept()[0],), daemon=True).start()

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"served " + self.path.encode())

listening = socket.create_server(("127.0.0.1", echo))
threading.Thread(target=serve_echo, args=(listening,), daemon=True).start()
server = http.server.ThreadingHTTPServer(("127.0.0.1", web), Handler)
print("it serves", flush=True)
server.serve_forever()
"""


@dataclass
class Served:
    cluster: Cluster
    task: str
    web: int
    echo: int

    @property
    def master(self) -> str:
        return self.cluster.env["DET_MASTER"]


def serving(folder: Path, web: int, echo: int) -> tuple[Path, Path]:
    """Write an experiment that serves at two ports; return its configuration and its code."""
    (folder / "code").mkdir()
    (folder / "code/serve.py").write_text(SERVE)
    ports = [
        {"proxy_port": web, "default_service_id": True},
        {"proxy_port": echo, "proxy_tcp": True},
    ]
    config = {
        "name": "serve", "entrypoint": f"python3 serve.py {web} {echo}", "environment": {"proxy_ports": ports},
        "searcher": {"name": "single", "metric": "x", "max_length": {"batches": 1}},
    }  # fmt: skip
    (folder / "serve.yaml").write_text(yaml.safe_dump(config))
    return folder / "serve.yaml", folder / "code"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("traffic")
    web, echo = free_port(), free_port()
    files = serving(folder, web, echo)
    with local_cluster(folder, runtime="process") as cluster:
        experiment = cluster.create(*files)
        trial = cluster.until(lambda: cluster.trials(experiment), "a trial")[0]
        cluster.until(lambda: "it serves" in cluster.logs(trial["id"]), "its server")
        yield Served(cluster, str(trial["taskId"]), web, echo)
        cluster.det("experiment", "kill", str(experiment))


def page(server: Served) -> bytes:
    token = server.cluster._token()
    address = f"{server.master}/proxy/{server.task}/page"
    with urlopen(
        Request(address, headers={"Authorization": f"Bearer {token}"}), timeout=60
    ) as response:
        body: bytes = response.read()
        return body


@contextmanager
def tunnelled(command: list[str], env: dict[str, str]) -> Iterator[None]:
    with subprocess.Popen(command, env=env) as process:
        try:
            yield
        finally:
            process.terminate()


def echoed(server: Served, port: int) -> bytes:
    """Return the answer through a tunnel that is starting."""

    def come_back() -> bytes:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
                client.sendall(b"there and back")
                return client.recv(100)
        except OSError:
            return b""

    reply: bytes = server.cluster.until(come_back, "a connection through the tunnel")
    return reply


def test_page_of_a_trial_is_served_after_an_api_restart(served: Served) -> None:
    expected = f"served /proxy/{served.task}/page".encode()
    assert page(served) == expected
    served.cluster.kill("api_server")

    def shown_again() -> bool:
        try:
            return page(served) == expected
        except OSError:
            return False

    served.cluster.until(shown_again, "the page")


def test_our_tunnel_forwards_a_port_of_a_trial(served: Served) -> None:
    here = free_port()
    service = f"{served.task}:{served.echo}"
    command = [sys.executable, "-m", "determined.cli.tunnel", "--auth", "--listener", str(here)]
    with tunnelled([*command, served.master, service], served.cluster.env):
        assert echoed(served, here) == b"there and back"


def test_tunnel_of_determineds_client_forwards_a_port_of_a_trial(
    served: Served, tmp_path: Path
) -> None:
    here = free_port()
    service = f"{served.task}:{served.echo}"
    with stock_client(served.master, tmp_path) as stock:
        stock.det("user", "login", "determined", stdin="\n")
        command = [str(stock.python), "-W", "ignore", "-m", "determined.cli.tunnel", "--auth"]
        command += ["-u", "determined", "--listener", str(here), served.master, service]
        with tunnelled(command, stock.env):
            assert echoed(served, here) == b"there and back"


@pytest.mark.parametrize("client", ["ours", "determined's"])
def test_published_port_is_forwarded_while_create_follows(
    served: Served, tmp_path: Path, client: str
) -> None:
    cluster, here, echo = served.cluster, free_port(), free_port()
    create = ["experiment", "create", *map(str, serving(tmp_path, free_port(), echo))]
    create += ["--follow-first-trial", "--publish", f"{here}:{echo}"]
    with ExitStack() as stack:
        command, env = DET, cluster.env
        if client != "ours":
            stock = stack.enter_context(stock_client(served.master, tmp_path))
            stock.det("user", "login", "determined", stdin="\n")
            command, env = [str(stock.python), "-W", "ignore", "-m", "determined.cli"], stock.env
        following = stack.enter_context(subprocess.Popen([*command, *create], env=env))
        stack.callback(following.kill)
        assert echoed(served, here) == b"there and back"
        (newest,) = cluster.get("/api/v1/experiments?limit=1&orderBy=ORDER_BY_DESC")["experiments"]
        cluster.det("experiment", "kill", str(newest["id"]))
        assert (following.wait(120) == 0) is (
            client != "ours"
        )  # their client does not report the failure of the trial
        with pytest.raises(OSError):
            socket.create_connection(("127.0.0.1", here), timeout=5)
