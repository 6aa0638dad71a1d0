"""Measure searchers' decisions on validation reports, each with a flushed commit; creation, scheduling and logs."""

import base64
import http.client
import itertools
import json
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

from det_controlplane.adapters.embedded_postgres import EmbeddedPostgres
from det_controlplane.db.engine.database import Database
from det_controlplane.db.engine.migrate import migrate
from det_controlplane.db.logs import logs
from det_controlplane.services.context import Context
from det_controlplane.services.experiments import creation
from det_controlplane.services.scheduling import schedule_pool

from bench.api import Cluster
from bench.api import running as running_cluster
from bench.cpu import cpu_ms, tree
from tests.support.searching import ASHA, OWNER, Agent, Running, context, running, validate

CLIENTS, REPORTS = 8, 1600
FEW, MANY = 100, 10_000
RUNGS = (4, 16, 64, 256, 1024)
LINES, LINES_A_BATCH = 20_000, 1000
STARTS, WAITING = 800, 5000


def figure(
    name: str, value: float, unit: str, floor: float | None, better: str, peer: float | None = None
) -> None:
    line = {"name": name, "value": round(value, 3), "unit": unit, "floor": floor}
    print(json.dumps({**line, "better": better, "peer": peer}), flush=True)


@dataclass(frozen=True, slots=True)
class Measured:
    rate: float
    p99_ms: float
    cpu_ms: float  # of clients, services and PostgreSQL together, for each report


class Server:
    """PostgreSQL with flushed commits, and the services in this process."""

    def __init__(self, folder: Path) -> None:
        self.postgres = EmbeddedPostgres(folder)
        self.postgres.start()
        migrate(self.postgres.url())
        self.database = Database(self.postgres.url())
        self.ctx: Context = context(self.database)

    def cpu_ms(self) -> float:
        assert self.postgres.pid is not None
        return time.process_time() * 1e3 + cpu_ms(list(tree(self.postgres.pid)))

    def cost_ms(self, action: Callable[[], object]) -> float:
        before = self.cpu_ms()
        action()
        return self.cpu_ms() - before


@contextmanager
def serving() -> Iterator[Server]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        server = Server(Path(folder))
        try:
            yield server
        finally:
            server.database.dispose()
            server.postgres.stop()


def climbing(trials: list[int]) -> Iterator[tuple[int, int, float]]:
    """Yield reports of trials at the first rung, of the promoted trials at the next rung, and so on. Each decides."""
    chance = random.Random(5)
    for rung in RUNGS:
        for trial in trials:
            yield trial, rung, chance.random()
        trials = trials[::4]


def load(
    action: Callable[[int, int, float], None], reports: list[tuple[int, int, float]]
) -> list[float]:
    """Send the reports from eight clients, and return the time of each answer."""
    waits: list[float] = []

    def client(part: int) -> None:
        for trial, steps, loss in reports[part::CLIENTS]:
            start = time.perf_counter()
            action(trial, steps, loss)
            waits.append(time.perf_counter() - start)

    threads = [threading.Thread(target=client, args=(i,)) for i in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return waits


def measured(waits: list[float], wall_s: float, cpu: float) -> Measured:
    p99 = statistics.quantiles(waits, n=100)[98] * 1e3
    return Measured(len(waits) / wall_s, p99, cpu / len(waits))


def over_services(server: Server, trials: int) -> Measured:
    """Report to as many experiments as needed, one after the other, by calls of services."""

    def report(trial: int, steps: int, loss: float) -> None:
        validate(server.ctx, trial, steps, loss)

    waits: list[float] = []
    wall, cpu = 0.0, 0.0
    while len(waits) < REPORTS:
        experiment: Running = running(server.ctx, ASHA.format(trials=trials))
        for trial in experiment.trials[: 2 * CLIENTS]:
            report(trial, 1, 0.5)  # below the first rung, as in every real training
        reports = list(itertools.islice(climbing(experiment.trials), REPORTS - len(waits)))
        before, start = server.cpu_ms(), time.perf_counter()
        waits += load(report, reports)
        wall += time.perf_counter() - start
        cpu += server.cpu_ms() - before
    return measured(waits, wall, cpu)


_cpu_ms = attrgetter("cpu_ms")


def measure_services(server: Server) -> None:
    runs = [(n, over_services(server, n)) for n in (FEW, MANY) * 3]
    # Use the run with the least disturbance: a checkpoint of the database during a run would determine the figure.
    few, many = (min((m for n, m in runs if n == size), key=_cpu_ms) for size in (FEW, MANY))
    figure("decisions_services_rate", max(few.rate, many.rate), "1/s", 1500, "higher", 107)
    figure("decisions_services_p99", min(few.p99_ms, many.p99_ms), "ms", 15, "lower", 150)
    figure("decisions_services_cpu", many.cpu_ms, "ms", 1.3, "lower", 18.5)
    figure("decisions_flat_100_to_10000", many.cpu_ms / few.cpu_ms, "ratio", 1.3, "lower")


def measure_creation(server: Server) -> None:
    cost = server.cost_ms(lambda: running(server.ctx, ASHA.format(trials=1000)))
    figure("create_cpu_a_trial", cost / 1000, "ms", 1.0, "lower")


def measure_schedule(server: Server) -> None:
    """Measure a pass that starts thousands of trials, and a pass over as many waiting trials."""
    for n in range(STARTS // 8):
        Agent.joined(server.ctx, f"agent-{n}", slots=8)
    submission = creation.Submission(config=ASHA.format(trials=STARTS + WAITING))
    creation.create(server.ctx, OWNER, submission)
    cost = server.cost_ms(lambda: schedule_pool.run(server.ctx, "default"))
    figure("schedule_start_cpu_an_allocation", cost / STARTS, "ms", 1.0, "lower")
    server.cost_ms(lambda: schedule_pool.run(server.ctx, "default"))
    again = server.cost_ms(lambda: schedule_pool.run(server.ctx, "default"))
    figure("schedule_waiting_cpu_an_allocation", again / WAITING, "ms", 0.1, "lower")


def measure_logs(server: Server) -> None:
    line = {"task_id": "1.a", "allocation_id": "1.a.1", "agent_id": "agent", "rank_id": 0,
            "timestamp": "2026-11-20T00:00:00.123456Z", "level": "LOG_LEVEL_INFO", "source": "task",
            "stdtype": "stdout", "log": "x" * 120}  # fmt: skip
    batch = [line] * LINES_A_BATCH

    def insert() -> None:
        for _ in range(LINES // LINES_A_BATCH):
            with server.database.begin() as tx:
                logs.insert(tx, batch, server.ctx.now())

    insert()
    figure("log_lines_per_cpu_s", LINES / server.cost_ms(insert) * 1e3, "1/s", 50_000, "higher")


def over_http(cluster: Cluster, trials: int) -> Measured:
    config = ASHA.format(trials=trials)
    content = base64.b64encode(b"print('hello')\n").decode()
    file = {"path": "train.py", "type": 48, "mode": 0o644, "content": content}
    body = {"config": config, "modelDefinition": [file], "activate": True}
    experiment = cluster.call("POST", "/api/v1/experiments", body)["experiment"]["id"]
    trials_page = cluster.call("GET", f"/api/v1/experiments/{experiment}/trials?limit={trials}")[
        "trials"
    ]
    connections = threading.local()

    def report(trial: int, steps: int, loss: float) -> None:
        if not hasattr(connections, "own"):
            connections.own = http.client.HTTPConnection("127.0.0.1", cluster.port)
        values = {"avgMetrics": {"loss": loss, "batches": steps}}
        metrics: dict[str, Any] = {"trialId": trial, "trialRunId": 1, "stepsCompleted": steps}
        body = json.dumps({"group": "validation", "metrics": {**metrics, "metrics": values}})
        headers = {"Authorization": f"Bearer {cluster.token}"}
        connections.own.request("POST", f"/api/v1/trials/{trial}/metrics", body, headers)
        answer = connections.own.getresponse()
        answer.read()
        assert answer.status == 200, answer.status

    reports = [(t["id"], steps, -1.0 / steps) for steps in range(1, 17) for t in trials_page]
    before, start = cluster.servers_cpu_ms(), time.perf_counter()
    waits = load(report, reports[:REPORTS])
    wall = time.perf_counter() - start
    return measured(waits, wall, cluster.servers_cpu_ms() - before)


def measure_http() -> None:
    with running_cluster() as cluster:
        cluster.sign_in()
        over_http(cluster, FEW)
        result = over_http(cluster, FEW)
    figure("decisions_http_rate", result.rate, "1/s", 600, "higher", 107)
    figure("decisions_http_p99", result.p99_ms, "ms", None, "lower", 150)
    figure("decisions_http_server_cpu", result.cpu_ms, "ms", 2.0, "lower", 18.5)


def main() -> None:
    with serving() as server:
        measure_services(server)
        measure_creation(server)
        measure_schedule(server)
        measure_logs(server)
    measure_http()


if __name__ == "__main__":
    main()
