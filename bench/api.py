"""Measure the CPU time of API and PostgreSQL for common requests: `python -m bench.api`."""

import base64
import http.client
import json
import socket
import statistics
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from det_controlplane.entry.local.commands import main as deploy_local
from det_controlplane.entry.local.files import LocalFiles

from bench import bare
from bench.cpu import cpu_ms, memory_mib, tree

REPEATS, ROUNDS = 100, 6
EXPERIMENTS = 1000
IDLE_S = 5.0
CONFIG = """
name: bench
entrypoint: python3 train.py
hyperparameters: {lr: 0.1}
searcher: {name: single, metric: loss, max_length: {batches: 100}}
"""
FILE = {
    "path": "train.py",
    "type": 48,
    "mode": 0o644,
    "content": base64.b64encode(b"print('hello')\n" * 50).decode(),
}


def figure(
    name: str, value: float, unit: str, floor: float | None, peer: float | None = None
) -> None:
    line = {"name": name, "value": round(value, 3), "unit": unit, "floor": floor}
    print(json.dumps({**line, "better": "lower", "peer": peer}), flush=True)


class Cluster:
    def __init__(self, folder: Path) -> None:
        self.files = LocalFiles(folder)
        self.token = ""
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = int(s.getsockname()[1])
        self._connection = http.client.HTTPConnection("127.0.0.1", self.port)

    def do(self, action: str) -> None:
        flags = {"agents": 0, "master_port": self.port, "initial_user_password": ""}
        code = deploy_local(action, Namespace(data_dir=str(self.files.folder), **flags))
        assert code == 0, f"{action} ended with {code}"

    def pids(self, *names: str) -> list[int]:
        processes = self.files.report()["processes"]
        return [p for name in names for p in tree(processes[name])]

    def servers_cpu_ms(self) -> float:
        return cpu_ms(self.pids("api", "postgres"))

    def database_url(self) -> str:
        """Return the database URL in the environment of the API."""
        variables = Path(f"/proc/{self.pids('api')[0]}/environ").read_text().split("\0")
        return next(line.partition("=")[2] for line in variables if line.startswith("DET_DB_URL="))

    def call(
        self, method: str, path: str, body: Any = None, token: str | None = None, status: int = 200
    ) -> Any:
        token = self.token if token is None else token
        headers = {"Authorization": f"Bearer {token}", "Accept-Encoding": "gzip"}
        content = None if body is None else json.dumps(body)
        self._connection.request(method, path, content, headers)
        answer = self._connection.getresponse()
        raw = answer.read()
        assert answer.status == status, f"{method} {path}: {answer.status} {raw[:300]!r}"
        return json.loads(raw)

    def reconnect(self) -> None:
        """Close the connection and open another, because the server closes one that is idle for a minute."""
        self._connection.close()

    def sign_in(self, username: str = "determined") -> None:
        login = {"username": username, "password": ""}
        self.token = self.call("POST", "/api/v1/auth/login", login)["token"]


@contextmanager
def running() -> Iterator[Cluster]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        cluster = Cluster(Path(folder) / "cluster")
        cluster.do("cluster-up")
        try:
            yield cluster
        finally:
            cluster.do("cluster-down")


def cost_ms(pids: list[int], action: Callable[[], object]) -> float:
    """Return the CPU time of some processes for one call."""
    before = cpu_ms(pids)
    for _ in range(REPEATS):
        action()
    return (cpu_ms(pids) - before) / REPEATS


class Action(NamedTuple):
    do: Callable[[], object]
    floor_ms: float
    peer_ms: float | None = None


def measure_requests(cluster: Cluster) -> None:
    """Measure the CPU time of each request, alternating with a bare list: absolute, and as a multiple of the bare list.

    Absolute figures are the minimum of all rounds, because other work only adds time. Multiples are the median. The
    floor of a multiple is the absolute floor divided by the time of the bare list on a quiet machine.
    """
    poll = agent_poll(cluster)
    actions = {
        "create": Action(lambda: create(cluster, activate=False), 6, 11),
        "list_100": Action(lambda: cluster.call("GET", "/api/v1/experiments?limit=100"), 3, 32),
        "get": Action(lambda: cluster.call("GET", "/api/v1/experiments/1"), 1.5),
        "agent_poll": Action(poll, 1.5),
    }
    with bare.serving(cluster.database_url()) as yardstick:
        for action in actions.values():
            cost_ms([], action.do)  # to warm up
        own, others = cluster.pids("api", "postgres"), [yardstick.pid, *cluster.pids("postgres")]
        rounds = []
        for _ in range(ROUNDS):
            costs = {name: cost_ms(own, action.do) for name, action in actions.items()}
            costs["refused"] = cost_ms(own, lambda: refused(cluster))
            costs["open"] = cost_ms(own, lambda: open_to_all(cluster))
            rounds.append({"bare": cost_ms(others, yardstick.list), **costs})
    figure("api_bare_list_cpu", min(r["bare"] for r in rounds), "ms", None)
    figure_rights(rounds)
    for name, (_, floor_ms, peer_ms) in actions.items():
        figure(f"api_{name}_cpu", min(r[name] for r in rounds), "ms", floor_ms, peer_ms)
        multiple = statistics.median(r[name] / r["bare"] for r in rounds)
        floor, peer = floor_ms / bare.THERE_MS, peer_ms and peer_ms / bare.THERE_MS
        figure(f"api_{name}_cpu_over_bare_list", multiple, "ratio", round(floor, 1), peer)


def figure_rights(rounds: list[dict[str, float]], floor_ms: float = 0.3) -> None:
    """Print the cost of authorization: a refused change minus a request without authentication."""
    least = {name: min(r[name] for r in rounds) for name in ("refused", "open")}
    figure("api_rights_cpu", least["refused"] - least["open"], "ms", floor_ms)
    multiple = statistics.median((r["refused"] - r["open"]) / r["bare"] for r in rounds)
    floor = round(floor_ms / bare.THERE_MS, 1)
    figure("api_rights_cpu_over_bare_list", multiple, "ratio", floor)


def refused(cluster: Cluster) -> None:
    """Request a change that only administrators may make: the API reads a token and finds that a right is missing."""
    cluster.call("DELETE", "/api/v1/master/cluster_message", status=403)


def open_to_all(cluster: Cluster) -> None:
    cluster.call("GET", "/api/v1/master/telemetry", token="")


def ready_s(cluster: Cluster) -> float:
    waits = []
    for _ in range(3):
        cluster.do("cluster-down")
        start = time.perf_counter()
        cluster.do("cluster-up")
        waits.append(time.perf_counter() - start)
    return min(waits)


def measure_idle(cluster: Cluster) -> None:
    supervisor = cluster.files.supervisor_pid()
    assert supervisor is not None
    everything = list(tree(supervisor))
    before = cpu_ms(everything)
    time.sleep(IDLE_S)
    spent_ms = cpu_ms(everything) - before
    figure("local_idle_memory", memory_mib(everything), "MiB", 150, peer=192)
    figure("local_idle_cpu", spent_ms / IDLE_S / 10, "percent", 1.0)


def create(cluster: Cluster, *, activate: bool) -> int:
    body = {"config": CONFIG, "modelDefinition": [FILE], "activate": activate}
    return int(cluster.call("POST", "/api/v1/experiments", body)["experiment"]["id"])


def measure_creates(cluster: Cluster) -> None:
    """Create active experiments. The scheduler's passes over the growing queue count as well."""
    batches = []
    for _ in range(EXPERIMENTS // REPEATS):
        before = cluster.servers_cpu_ms()
        for _ in range(REPEATS):
            create(cluster, activate=True)
        batches.append((cluster.servers_cpu_ms() - before) / REPEATS)
    print("# create, ms each, by hundred:", *(f"{b:.2f}" for b in batches), file=sys.stderr)
    first, last = statistics.median(batches[:3]), statistics.median(batches[-3:])
    figure("api_create_cpu_queue_of_1000", last, "ms", 6, peer=11)
    figure("api_create_slowdown_over_1000", last / first, "ratio", 1.3)


def agent_poll(cluster: Cluster) -> Callable[[], object]:
    """Join as an agent, and return a call that polls."""
    incarnation = "00000000-0000-0000-0000-000000000001"
    body = {
        "agent_id": "bench",
        "agent_key": "key",
        "incarnation": incarnation,
        "pool": "default",
        "version": "0.38.1",
        "hostname": "bench",
        "addresses": ["127.0.0.1"],
        "runtime": "process",
        "slots": [],
        "proof": {"kind": "bootstrap_token", "token": cluster.files.secrets().bootstrap_token},
    }
    token = cluster.call("POST", "/agents/v1/join", body, token="")["agent_token"]
    poll = {"incarnation": incarnation, "wait_s": 0, "containers": [], "signals": []}
    return lambda: cluster.call("POST", "/agents/v1/poll", poll, token=token)


def main() -> None:
    with running() as cluster:
        figure("local_ready", ready_s(cluster), "s", 2, peer=5.2)
        measure_idle(cluster)
        cluster.sign_in()
        measure_requests(cluster)
        measure_creates(cluster)


if __name__ == "__main__":
    main()
