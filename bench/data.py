"""Measure the rates of metrics and log lines, and the delays of curves and followed logs: `python -m bench.data`.

Rates are measured with one API process over HTTP. They alternate with a bare COPY of the same values into the same
PostgreSQL, so that other load on the machine affects both. Small reports are measured in two ways. `data_reports_…` are
separate requests to the API, as programs outside the cluster send them. `data_reports_by_gateways…` go to the gateways
of four agents with eight trials each, and are timed until the gateways answer after the commit. Sender, gateways, API
and PostgreSQL share the processors of this machine.
"""

import http.client
import io
import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from det_controlplane.db.engine.database import Database
from sqlalchemy import text

from bench import bare
from bench.api import CONFIG, FILE, Cluster, running
from bench.cpu import cpu_ms
from bench.gateways import GatewayProcess, PlayedAgent, serving
from bench.senders import LINES, METRICS, Round, line_of

TRIALS, ROUNDS = 8, 5  # for one agent
AGENTS = 4
POINTS = 1_000_000
BEYOND = 1_000_000  # larger than all steps that other measurements report
# The rate of a bare COPY in batches of 1,000 on a quiet machine, for which the floors are set, in rows a second.
COPY_METRICS_THERE, COPY_LINES_THERE = 411_000, 313_000
SEARCH = CONFIG.replace(
    "searcher: {name: single,", f"searcher: {{name: random, max_trials: {TRIALS},"
)
MANY_TRIALS = TRIALS * AGENTS
MANY = CONFIG.replace(
    "searcher: {name: single,",
    "resources: {slots_per_trial: 1}\n"
    f"searcher: {{name: random, max_trials: {MANY_TRIALS}, max_concurrent_trials: {MANY_TRIALS},",
)
FILL = text("""
    INSERT INTO metrics (trial_id, run_id, metric_group, total_batches, metrics, reported_at)
    SELECT :trial, 1, 'training', n, json_build_object('loss', 1.0 / n), now() + n * interval '1 millisecond'
    FROM generate_series(1, cast(:points AS integer)) AS n
""")


def figure(
    name: str,
    value: float,
    unit: str,
    floor: float | None,
    *,
    better: str = "higher",
    peer: float | None = None,
) -> None:
    line = {"name": name, "value": round(value, 3), "unit": unit, "floor": floor}
    print(json.dumps({**line, "better": better, "peer": peer}), flush=True)


class Senders:
    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def send(self, plan: Round) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line_of(plan) + "\n")
        self._process.stdin.flush()
        result: dict[str, Any] = json.loads(self._process.stdout.readline())
        assert not result["wrong"], result["wrong"]
        return result


@contextmanager
def senders(port: int, token: str) -> Iterator[Senders]:
    command = [sys.executable, "-m", "bench.senders", str(port), token]
    root = Path(__file__).parents[1]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root
    ) as process:
        yield Senders(process)
        assert process.stdin is not None
        process.stdin.close()


class Copied:
    """A table with the index that finds rows, filled by bare COPYs with a commit for each batch."""

    def __init__(self, url: str) -> None:
        self._connection = bare.connect(url)
        self._connection.run(
            "CREATE TABLE IF NOT EXISTS bare_rows (subject text, n bigint, value text)"
        )
        self._connection.run("CREATE INDEX IF NOT EXISTS bare_index ON bare_rows (subject, n)")

    def rows_a_second(self, value: str, batches: int, size: int = 1000) -> float:
        """Return the rate at which rows with this value are stored."""
        start = time.perf_counter()
        for batch in range(batches):
            rows = "".join(f"7\t{batch * size + n}\t{value}\n" for n in range(size))
            self._connection.run("COPY bare_rows FROM STDIN", stream=io.StringIO(rows))
        return batches * size / (time.perf_counter() - start)


def trials_of(cluster: Cluster, config: str = SEARCH) -> list[dict[str, Any]]:
    """Create an experiment, and return its trials, which wait for an agent."""
    cluster.reconnect()
    body = {"config": config, "modelDefinition": [FILE], "activate": True}
    experiment_id = cluster.call("POST", "/api/v1/experiments", body)["experiment"]["id"]
    trials = cluster.call("GET", f"/api/v1/experiments/{experiment_id}/trials")["trials"]
    return list(trials)


def measure_intake(cluster: Cluster, sender: Senders) -> None:
    """Measure reports of 1,000 metrics, and batches of 1,000 lines."""
    trials, copied = trials_of(cluster), Copied(cluster.database_url())
    ids, tasks = [str(t["id"]) for t in trials], [t["taskId"] for t in trials]
    kinds = {
        "metrics": (METRICS, ids[:4], "0.123456789", 100_000, COPY_METRICS_THERE, 13_700),
        "log_lines": (LINES, tasks[:4], "x" * 120, 80_000, COPY_LINES_THERE, None),
    }
    for name, (kind, subjects, value, floor, there, peer) in kinds.items():
        rates, ratios, cpus = [], [], []
        for number in range(ROUNDS + 1):
            copy_rate = copied.rows_a_second(value, 50)
            before = cluster.servers_cpu_ms()
            result = sender.send(Round(kind, subjects, 25, 1000, 1 + number * 25))
            count = 25 * 1000 * len(subjects)
            rate = count / result["wall_s"]
            if number:  # the first round is a warm-up
                rates.append(rate)
                ratios.append(rate / copy_rate)
                cpus.append((cluster.servers_cpu_ms() - before) * 1000 / count)
        figure(f"data_{name}", max(rates), "1/s", floor, peer=peer)
        figure(f"data_{name}_cpu", min(cpus), "us each", None, better="lower")
        floor_ratio = round(floor / there, 2)
        figure(f"data_{name}_over_copy", statistics.median(ratios), "ratio", floor_ratio)


def measure_reports(cluster: Cluster, sender: Senders) -> None:
    """Measure reports of 10 metrics. Each is a request to the API, as from a program without an agent.

    Measure the maximum rate of some trials, and the delays when many trials together send 2,000 reports a second.
    """
    ids = [str(t["id"]) for t in trials_of(cluster, MANY)]
    few, rates, api_ms, postgres_ms, client_ms = ids[:TRIALS], [], [], [], []
    step = 1
    for _ in range(ROUNDS):
        before = cpu_ms(cluster.pids("api")), cpu_ms(cluster.pids("postgres"))
        result = sender.send(Round(METRICS, few, 150, 10, step))
        step += 150
        count = 150 * len(few)
        rates.append(count / result["wall_s"])
        api_ms.append((cpu_ms(cluster.pids("api")) - before[0]) / count)
        postgres_ms.append((cpu_ms(cluster.pids("postgres")) - before[1]) / count)
        client_ms.append(result["cpu_ms"])
    figure("data_reports_of_10", max(rates), "1/s", 2000, peer=111)
    figure("data_reports_of_10_api_cpu", min(api_ms), "ms", 0.5, better="lower")
    figure("data_reports_of_10_postgres_cpu", min(postgres_ms), "ms", 0.5, better="lower")
    figure("data_reports_of_10_client_cpu", min(client_ms), "ms", None, better="lower")
    at_2000("data_reports_at_2000", sender, Round(METRICS, ids, 125, 10, step))


def at_2000(name: str, sender: Senders, plan: Round, floor_ms: float | None = 20) -> None:
    """Measure the delays of reports that trials send 2,000 times a second together, from the time when each is due."""
    result = sender.send(replace(plan, per_second=2000 / len(plan.subjects)))
    figure(f"{name}_p50", result["p50_ms"], "ms", None, better="lower")
    figure(f"{name}_p99", result["p99_ms"], "ms", floor_ms, better="lower", peer=132)


def measure_gateways(cluster: Cluster, sender: Senders) -> None:
    """Measure the same reports as a cluster sends them: from trials to the gateways of their agents, and on to the API.

    Real gateways are on other machines. Here they share the processors with all other processes, so there are no
    floors.
    """
    cluster.reconnect()
    agents = [PlayedAgent(cluster, f"bench-{n}", TRIALS) for n in range(AGENTS)]
    # The agents may get trials of other measurements. The trials of the intake have a thousand names of metrics.
    trials_of(cluster, MANY)
    while any(len(agent.specs) < TRIALS for agent in agents):
        for agent in agents:
            agent.poll()
    with serving(cluster, agents) as gateways:
        trials = {
            spec["container_id"]: spec["env"]["DET_TRIAL_ID"]
            for a in agents
            for spec in a.specs.values()
        }
        keys = [(gateway.port, key) for gateway in gateways for key in gateway.keys]
        plan = Round(
            METRICS, [trials[key.id] for _, key in keys], 60, 10, BEYOND,
            ways=[(port, key.session_token) for port, key in keys],
        )  # fmt: skip
        rates, costs = [], []
        for _ in range(ROUNDS):
            before = spent(cluster, gateways)
            result = sender.send(plan)
            count = plan.requests * len(keys)
            rates.append(count / result["wall_s"])
            costs.append(
                [(b - a) / count for a, b in zip(before, spent(cluster, gateways), strict=True)]
            )
            plan = replace(plan, first=plan.first + plan.requests)
        # Use the median of the rounds, because the time of a process that ended between them is not counted.
        *cpus_ms, requests = (statistics.median(each) for each in zip(*costs, strict=True))
        figure("data_reports_by_gateways", max(rates), "1/s", None)
        for name, each_ms in zip(("api", "postgres", "gateways"), cpus_ms, strict=True):
            figure(f"data_reports_by_gateways_{name}_cpu", each_ms, "ms", None, better="lower")
        figure("data_reports_a_request_of_gateways", 1 / requests, "", None)
        plan = replace(plan, requests=125)
        at_2000("data_reports_by_gateways_at_2000", sender, plan, floor_ms=None)


def spent(cluster: Cluster, gateways: list[GatewayProcess]) -> list[float]:
    """Return the processor time of API, PostgreSQL and gateways, and the number of the gateways' requests."""
    gateway_times = [gateway.spent() for gateway in gateways]
    servers = [cpu_ms(cluster.pids(name)) for name in ("api", "postgres")]
    return [
        *servers,
        sum(each.cpu_ms for each in gateway_times),
        sum(each.requests for each in gateway_times),
    ]


def measure_ceilings(cluster: Cluster) -> None:
    """Measure limits that do not depend on the API: the sender with an app that ignores reports, and the disk."""
    plan = Round(METRICS, [str(n) for n in range(8)], 500, 10, 1)
    database = cluster.database_url()
    with bare.serving(database) as app, senders(app.port, "") as sender:
        rates = [500 * 8 / sender.send(plan)["wall_s"] for _ in range(3)]
    figure("data_reports_forgotten", max(rates), "1/s", None)
    figure("data_commits_of_a_row", Copied(database).rows_a_second("x", 300, size=1), "1/s", None)


def measure_curve(cluster: Cluster) -> None:
    """Measure a curve of 1,000 points out of a million."""
    trial_id = trials_of(cluster)[0]["id"]
    with Database(cluster.database_url()).begin() as tx:
        tx.execute(FILL, {"trial": trial_id, "points": POINTS})
    cluster.reconnect()
    path = (
        f"/api/v1/trials/time-series?trialIds={trial_id}&metricIds=training.loss&maxDatapoints=1000"
    )
    cold, *warm = [timed_ms(cluster, path) for _ in range(6)]
    figure("data_curve_of_a_million_first", cold, "ms", None, better="lower")
    figure("data_curve_of_a_million", min(warm), "ms", 100, better="lower")


def timed_ms(cluster: Cluster, path: str) -> float:
    start = time.perf_counter()
    points = cluster.call("GET", path)["trials"][0]["metrics"][0]["data"]
    assert 900 < len(points) <= 1000, len(points)
    return (time.perf_counter() - start) * 1000


def measure_follow(cluster: Cluster) -> None:
    """Measure the time from sending a line until a follower receives it."""
    task_id = trials_of(cluster)[0]["taskId"]
    arrived: dict[str, float] = {}
    arrival = threading.Condition()

    def follow() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", cluster.port)
        headers = {"Authorization": f"Bearer {cluster.token}"}
        connection.request("GET", f"/api/v1/tasks/{task_id}/logs?follow=true", headers=headers)
        for line in connection.getresponse():
            with arrival:
                arrived[json.loads(line)["result"]["log"]] = time.perf_counter()
                arrival.notify()
            if "the last" in arrived:
                break

    follower = threading.Thread(target=follow)
    follower.start()
    waits = []
    for log in (*(f"line {n}" for n in range(40)), "the last"):
        start = time.perf_counter()
        cluster.call("POST", "/api/v1/task/logs", {"logs": [{"taskId": task_id, "log": log}]})
        with arrival:
            assert arrival.wait_for(lambda log=log: log in arrived, timeout=30), log  # type: ignore[misc]
        waits.append((arrived[log] - start) * 1000)
    follower.join()
    figure("data_follow", statistics.median(waits[1:]), "ms", 200, better="lower")


def main() -> None:
    with running() as cluster:
        cluster.sign_in()
        with senders(cluster.port, cluster.token) as sender:
            measure_gateways(cluster, sender)
            measure_intake(cluster, sender)
            measure_reports(cluster, sender)
        measure_ceilings(cluster)
        measure_curve(cluster)
        measure_follow(cluster)


if __name__ == "__main__":
    main()
