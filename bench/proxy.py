"""Measure the delay and the cost that the relay adds between a client and a task: `python -m bench.proxy`.

The cluster is local: API, agent, and a trial that serves HTTP and echoes TCP. All of them and the client share the
processors of this machine. The same requests are also measured without the relay, and the first figures are
differences.
"""

import http.client
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from det_controlplane.entry.local.files import LocalFiles
from determined.common import tunnel
from determined.common.http import Session

from bench.cpu import cpu_ms, tree
from tests.support.cluster import Cluster, local_cluster
from tests.support.ports import free_port

BYTES, ROUNDS, REQUESTS, KEYS = 256 << 20, 3, 200, 200
BLOCK = 1 << 20
FLOOR_MB_S, FLOOR_ADDED_MS, FLOOR_KEY_MS = 200.0, 2.0, 20.0
SERVE = """
import http.server, os, socket, sys, threading
web, echo, size = map(int, sys.argv[1:])

def serve_echo():
    listening = socket.create_server(("127.0.0.1", echo))
    while True:
        connection, _ = listening.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=repeat, args=(connection,), daemon=True).start()

def repeat(connection):
    while part := connection.recv(65536):
        connection.sendall(part)

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if not self.path.endswith("/large"):
            self.wfile.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: 5\\r\\n\\r\\nhello")
            return
        left, block = size, bytes(1 << 20)
        self.send_response(200)
        self.send_header("Content-Length", str(left))
        self.end_headers()
        while left:
            left -= self.connection.send(block[:left])

    def log_message(self, *_):
        pass

threading.Thread(target=serve_echo, daemon=True).start()
server = http.server.ThreadingHTTPServer(("127.0.0.1", web), Handler)
print("serving", flush=True)
server.serve_forever()
"""


def figure(name: str, value: float, unit: str, floor: float, better: str = "lower") -> None:
    line = {"name": name, "value": round(value, 3), "unit": unit, "floor": floor}
    print(json.dumps({**line, "better": better, "peer": None}), flush=True)


def served(cluster: Cluster, folder: Path, web: int, echo: int) -> str:
    """Start a trial that serves, and return the name of its task."""
    (folder / "code").mkdir()
    (folder / "code/serve.py").write_text(SERVE)
    ports = [{"proxy_port": web}, {"proxy_port": echo, "proxy_tcp": True}]
    config = {
        "name": "serve", "entrypoint": f"python3 serve.py {web} {echo} {BYTES}",
        "searcher": {"name": "single", "metric": "x", "max_length": {"batches": 1}},
        "environment": {"proxy_ports": ports},
    }  # fmt: skip
    (folder / "serve.yaml").write_text(json.dumps(config))
    experiment = cluster.create(folder / "serve.yaml", folder / "code")
    trial = cluster.until(lambda: cluster.trials(experiment), "a trial")[0]
    cluster.until(lambda: "serving" in cluster.logs(trial["id"]), "its server")
    return str(trial["taskId"])


class Client:
    def __init__(self, netloc: str, prefix: str, headers: dict[str, str]) -> None:
        self._netloc, self._prefix, self._headers = netloc, prefix, headers
        self._kept = http.client.HTTPConnection(netloc)

    def large_mb_s(self) -> float:
        connection, buffer = http.client.HTTPConnection(self._netloc), bytearray(BLOCK)
        start = time.perf_counter()
        connection.request("GET", f"{self._prefix}/large", headers=self._headers)
        answer, size = connection.getresponse(), 0
        while count := answer.readinto(buffer):
            size += count
        took_s = time.perf_counter() - start
        connection.close()
        assert (answer.status, size) == (200, BYTES)
        return BYTES / 1e6 / took_s

    def small(self) -> None:
        self._kept.request("GET", f"{self._prefix}/", headers=self._headers)
        answer = self._kept.getresponse()
        assert (answer.status, len(answer.read())) == (200, 5)


def median_ms(call: Callable[[], Any], times: int) -> float:
    samples = []
    for _ in range(times):
        start = time.perf_counter()
        call()
        samples.append(1000 * (time.perf_counter() - start))
    return statistics.median(samples)


def _processes(cluster: Cluster) -> dict[str, int]:
    """Return the processes of the cluster, by name."""
    processes: dict[str, int] = LocalFiles(cluster.folder / "data").report()["processes"]
    return processes


def _cpu(pids: dict[str, list[int]]) -> dict[str, float]:
    return {name: round(cpu_ms(p)) for name, p in pids.items()}


def measure(cluster: Cluster, task: str, web: int, echo: int) -> None:
    master = cluster.env["DET_MASTER"]
    session = Session(master)
    headers = {"Authorization": f"Bearer {cluster._token()}"}
    session.headers.update(headers)
    direct = Client(f"127.0.0.1:{web}", "", {})
    through = Client(master.removeprefix("http://"), f"/proxy/{task}", headers)
    print(f"# load {os.getloadavg()[0]:.1f}", file=sys.stderr)
    pids = {name: list(tree(pid)) for name, pid in _processes(cluster).items()}
    print(f"# CPU before {_cpu(pids)}", file=sys.stderr)
    rates = [(direct.large_mb_s(), through.large_mb_s()) for _ in range(ROUNDS)]
    print(f"# MB/s direct, through the relay: {rates}", file=sys.stderr)
    figure("proxy_throughput", max(r for _, r in rates), "MB/s", FLOOR_MB_S, better="higher")
    print(f"# CPU after {ROUNDS * BYTES >> 20} MiB {_cpu(pids)}", file=sys.stderr)
    times = [
        (median_ms(direct.small, REQUESTS), median_ms(through.small, REQUESTS))
        for _ in range(ROUNDS)
    ]
    print(f"# ms direct, through the relay: {times}", file=sys.stderr)
    figure("proxy_added", min(t - d for d, t in times), "ms", FLOOR_ADDED_MS)
    print(f"# CPU after {ROUNDS * REQUESTS} requests {_cpu(pids)}", file=sys.stderr)
    with tunnel.websocket_to(session, f"{task}:{echo}") as websocket:

        def key() -> None:
            websocket.send(b"x")
            assert websocket.recv() == b"x"

        keys = [median_ms(key, KEYS) for _ in range(ROUNDS)]
    figure("proxy_keystroke", min(keys), "ms", FLOOR_KEY_MS)
    print(f"# load {os.getloadavg()[0]:.1f}", file=sys.stderr)


def main() -> None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        web, echo = free_port(), free_port()
        with local_cluster(folder, runtime="process") as cluster:
            measure(cluster, served(cluster, folder, web, echo), web, echo)


if __name__ == "__main__":
    main()
