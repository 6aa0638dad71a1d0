"""Measure 200 concurrent clients: `python -m bench.many_clients`.

Each creates an experiment, lists experiments, and follows a log to which it writes.
"""

import http.client
import json
import threading
import time
from typing import Any

from bench.api import CONFIG, FILE, Cluster, running
from bench.data import figure

CLIENTS, LINES = 200, 5
PATIENCE_S = 120


class Client(threading.Thread):
    """A client that records the time of each action, and its errors."""

    def __init__(self, cluster: Cluster, begin: threading.Barrier) -> None:
        super().__init__()
        self.took_s: dict[str, list[float]] = {"create": [], "list": [], "follow": []}
        self.wrong = ""
        self._port, self._token, self._begin = cluster.port, cluster.token, begin

    def run(self) -> None:
        self._begin.wait()
        try:
            self._work()
        except (OSError, AssertionError, http.client.HTTPException) as e:
            self.wrong = repr(e)

    def _work(self) -> None:
        config = {"config": CONFIG, "modelDefinition": [FILE], "activate": False}
        experiment_id = self._timed("create", "POST", "/api/v1/experiments", config)["experiment"][
            "id"
        ]
        self._timed("list", "GET", "/api/v1/experiments?limit=20")
        trials = self._timed("list", "GET", f"/api/v1/experiments/{experiment_id}/trials")["trials"]
        task_id = trials[0]["taskId"]
        following = self._asked("GET", f"/api/v1/tasks/{task_id}/logs?follow=true")
        for number in range(LINES):
            log = f"line {number}"
            start = time.perf_counter()
            self._call("POST", "/api/v1/task/logs", {"logs": [{"taskId": task_id, "log": log}]})
            while json.loads(following.readline())["result"]["log"] != log:
                pass
            self.took_s["follow"].append(time.perf_counter() - start)
        following.close()

    def _timed(self, what: str, *request: Any) -> Any:
        start = time.perf_counter()
        result = self._call(*request)
        self.took_s[what].append(time.perf_counter() - start)
        return result

    def _call(self, *request: Any) -> Any:
        return json.loads(self._asked(*request).read())

    def _asked(self, method: str, path: str, body: Any = None) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE_S)
        headers = {"Authorization": f"Bearer {self._token}"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        assert answer.status == 200, f"{method} {path}: {answer.status}"
        return answer


def main() -> None:
    with running() as cluster:
        cluster.sign_in()
        begin = threading.Barrier(CLIENTS)
        clients = [Client(cluster, begin) for _ in range(CLIENTS)]
        before, start = cluster.servers_cpu_ms(), time.perf_counter()
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        wall_s = time.perf_counter() - start
        cpu_ms = (cluster.servers_cpu_ms() - before) / CLIENTS
    failures = [client.wrong for client in clients if client.wrong]
    figure("many_clients_failed", len(failures), f"of {CLIENTS}", 0, better="lower")
    figure("many_clients_all_done", wall_s, "s", None, better="lower")
    figure("many_clients_servers_cpu", cpu_ms, "ms a client", None, better="lower")
    for what in ("create", "list", "follow"):
        times = sorted(t for client in clients for t in client.took_s[what])
        for name, share in (("p50", 0.5), ("p99", 0.99)):
            value = times[int(len(times) * share)] * 1000
            figure(f"many_clients_{what}_{name}", value, "ms", None, better="lower")


if __name__ == "__main__":
    main()
