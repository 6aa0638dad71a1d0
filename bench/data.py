"""Measure how fast metrics and log lines are taken, how soon curves and followed lines are shown.

python -m bench.data

Rates are of one API process over HTTP, in turn with a bare COPY of the same values into the same PostgreSQL: what a
machine under other load does to one it does to both.
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
from pathlib import Path
from typing import Any

from det_controlplane.db.engine import Database
from sqlalchemy import text

from bench import bare
from bench.api import CONFIG, FILE, Cluster, running
from bench.cpu import cpu_ms
from bench.senders import LINES, METRICS, Round, line_of

TRIALS, ROUNDS = 8, 5
POINTS = 1_000_000
# What a bare COPY does in batches of 1,000 on a quiet machine of the kind that the floors are for, in rows a second.
COPY_METRICS_THERE, COPY_LINES_THERE = 411_000, 313_000
SEARCH = CONFIG.replace(
    "searcher: {name: single,", f"searcher: {{name: random, max_trials: {TRIALS},"
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

    def send(self, asked: Round) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line_of(asked) + "\n")
        self._process.stdin.flush()
        told: dict[str, Any] = json.loads(self._process.stdout.readline())
        assert not told["wrong"], told["wrong"]
        return told


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
    """A bare COPY, a commit for each batch, into a table with the index that the rows need to be found."""

    def __init__(self, url: str) -> None:
        self._connection = bare.connect(url)
        self._connection.run(
            "CREATE TABLE IF NOT EXISTS bare_rows (subject text, n bigint, value text)"
        )
        self._connection.run("CREATE INDEX IF NOT EXISTS bare_index ON bare_rows (subject, n)")

    def rows_a_second(self, value: str, batches: int, size: int = 1000) -> float:
        """Return the rate at which rows with this value are taken."""
        began = time.perf_counter()
        for batch in range(batches):
            rows = "".join(f"7\t{batch * size + n}\t{value}\n" for n in range(size))
            self._connection.run("COPY bare_rows FROM STDIN", stream=io.StringIO(rows))
        return batches * size / (time.perf_counter() - began)


def trials_of(cluster: Cluster, config: str = SEARCH) -> list[dict[str, Any]]:
    """Make an experiment and return its trials, which wait for an agent."""
    cluster.connect_anew()
    body = {"config": config, "modelDefinition": [FILE], "activate": True}
    made = cluster.call("POST", "/api/v1/experiments", body)["experiment"]["id"]
    found = cluster.call("GET", f"/api/v1/experiments/{made}/trials")["trials"]
    return list(found)


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
            told = sender.send(Round(kind, subjects, 25, 1000, 1 + number * 25))
            count = 25 * 1000 * len(subjects)
            rate = count / told["wall_s"]
            if number:  # the first warms up
                rates.append(rate)
                ratios.append(rate / copy_rate)
                cpus.append((cluster.servers_cpu_ms() - before) * 1000 / count)
        figure(f"data_{name}", max(rates), "1/s", floor, peer=peer)
        figure(f"data_{name}_cpu", min(cpus), "us each", None, better="lower")
        floor_ratio = round(floor / there, 2)
        figure(f"data_{name}_over_copy", statistics.median(ratios), "ratio", floor_ratio)


def measure_reports(cluster: Cluster, sender: Senders) -> None:
    """Measure reports of 10 metrics from 8 trials: as many as go, and how long they take at 2,000 a second."""
    ids = [str(t["id"]) for t in trials_of(cluster)]
    rates, api_ms, postgres_ms = [], [], []
    step = 1
    for _ in range(ROUNDS):
        before = cpu_ms(cluster.pids("api")), cpu_ms(cluster.pids("postgres"))
        told = sender.send(Round(METRICS, ids, 150, 10, step))
        step += 150
        count = 150 * len(ids)
        rates.append(count / told["wall_s"])
        api_ms.append((cpu_ms(cluster.pids("api")) - before[0]) / count)
        postgres_ms.append((cpu_ms(cluster.pids("postgres")) - before[1]) / count)
    figure("data_reports_of_10", max(rates), "1/s", 2000, peer=111)
    figure("data_reports_of_10_api_cpu", min(api_ms), "ms", 0.5, better="lower")
    figure("data_reports_of_10_postgres_cpu", min(postgres_ms), "ms", 0.5, better="lower")
    told = sender.send(Round(METRICS, ids, 500, 10, step, per_second=2000 / len(ids)))
    figure("data_reports_at_2000_p50", told["p50_ms"], "ms", None, better="lower")
    figure("data_reports_at_2000_p99", told["p99_ms"], "ms", 20, better="lower", peer=132)


def measure_ceilings(cluster: Cluster) -> None:
    """Measure what bounds reports whatever the API does: the sender with an app that forgets them, and the disk."""
    asked = Round(METRICS, [str(n) for n in range(8)], 500, 10, 1)
    database = cluster.database_url()
    with bare.serving(database) as app, senders(app.port, "") as sender:
        rates = [500 * 8 / sender.send(asked)["wall_s"] for _ in range(3)]
    figure("data_reports_forgotten", max(rates), "1/s", None)
    figure("data_commits_of_a_row", Copied(database).rows_a_second("x", 300, size=1), "1/s", None)


def measure_curve(cluster: Cluster) -> None:
    """Measure a curve of 1,000 points out of a million."""
    trial_id = trials_of(cluster)[0]["id"]
    with Database(cluster.database_url()).begin() as tx:
        tx.execute(FILL, {"trial": trial_id, "points": POINTS})
    cluster.connect_anew()
    path = (
        f"/api/v1/trials/time-series?trialIds={trial_id}&metricIds=training.loss&maxDatapoints=1000"
    )
    cold, *warm = [timed_ms(cluster, path) for _ in range(6)]
    figure("data_curve_of_a_million_first", cold, "ms", None, better="lower")
    figure("data_curve_of_a_million", min(warm), "ms", 100, better="lower")


def timed_ms(cluster: Cluster, path: str) -> float:
    began = time.perf_counter()
    shown = cluster.call("GET", path)["trials"][0]["metrics"][0]["data"]
    assert 900 < len(shown) <= 1000, len(shown)
    return (time.perf_counter() - began) * 1000


def measure_follow(cluster: Cluster) -> None:
    """Measure from the moment a line is sent until a follower has it."""
    task_id = trials_of(cluster)[0]["taskId"]
    arrived: dict[str, float] = {}
    came = threading.Condition()

    def follow() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", cluster.port)
        headers = {"Authorization": f"Bearer {cluster.token}"}
        connection.request("GET", f"/api/v1/tasks/{task_id}/logs?follow=true", headers=headers)
        for line in connection.getresponse():
            with came:
                arrived[json.loads(line)["result"]["log"]] = time.perf_counter()
                came.notify()
            if "the last" in arrived:
                break

    follower = threading.Thread(target=follow)
    follower.start()
    waits = []
    for log in (*(f"line {n}" for n in range(40)), "the last"):
        began = time.perf_counter()
        cluster.call("POST", "/api/v1/task/logs", {"logs": [{"taskId": task_id, "log": log}]})
        with came:
            assert came.wait_for(lambda log=log: log in arrived, timeout=30), log  # type: ignore[misc]
        waits.append((arrived[log] - began) * 1000)
    follower.join()
    figure("data_follow", statistics.median(waits[1:]), "ms", 200, better="lower")


def main() -> None:
    with running() as cluster:
        cluster.sign_in()
        with senders(cluster.port, cluster.token) as sender:
            measure_intake(cluster, sender)
            measure_reports(cluster, sender)
        measure_ceilings(cluster)
        measure_curve(cluster)
        measure_follow(cluster)


if __name__ == "__main__":
    main()
