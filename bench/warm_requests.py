"""Measure the cost of a busy agent's requests for a warm function and its database: `python -m bench.warm_requests`.

An agent with one running trial polls, sends lines, and reports metrics, in the shares of an hour that bench/cost.py
counts. The bill of Lambda is calculated: the processor share of a function with 1024 MB, and round trips to the
database.
"""

import json
import tempfile
import uuid
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from det_controlplane.adapters.embedded_postgres import EmbeddedPostgres
from det_controlplane.db.engine.migrate import migrate
from det_controlplane.entry.aws import packaging

from bench.cost import (
    DATABASE_CPU_S,
    FUNCTION_CPU_S,
    LOG_BATCHES,
    REPORTS,
    STEADY_POLLS,
    TICK_CPU_S,
)
from bench.cpu import cpu_ms, tree
from tests.support.lambda_calls import call, create_experiment, join_agent, poll, sign_in
from tests.support.lambda_runtime import LambdaRuntime

ROUNDS, WARMING = 100, 20
INCARNATION = "00000000-0000-0000-0000-000000000001"


class Busy:
    """An agent with a running container, and the trial in it."""

    def __init__(self, api: LambdaRuntime, tick: LambdaRuntime) -> None:
        self._api, self._number = api, 0
        experiment = create_experiment(api, sign_in(api))
        self._token = join_agent(api)
        tick.invoke({})
        (order,) = poll(api, self._token)["containers"]
        self._container, self._task = order["id"], order["spec"]
        trials = f"/api/v1/experiments/{experiment}/trials"
        self._trial = call(api, "GET", trials, self._task["session_token"])["trials"][0]["id"]
        self._seen = ""

    def polls(self) -> None:
        self._number += 1
        report = {"id": self._container, "epoch": self._task["epoch"], "state": "running"}
        body = {
            "incarnation": INCARNATION, "seq": self._number, "containers": [report], "seen": self._seen,
        }  # fmt: skip
        answer = call(self._api, "POST", "/agents/v1/poll", self._token, body)
        self._seen = answer["version"]

    def ships(self) -> None:
        """Send three lines, as many as in half a minute."""
        line = {
            "task_id": self._task["task_id"], "allocation_id": self._task["allocation_id"], "stdtype": "stdout",
            "container_id": self._container, "timestamp": "2026-01-01T00:00:00Z",
        }  # fmt: skip
        lines = [{**line, "log": f"line {n} of a trial that says how far it is"} for n in range(3)]
        body = {"batch_id": str(uuid.uuid4()), "logs": lines}
        call(self._api, "POST", "/agents/v1/logs", self._token, body)

    def reports(self) -> None:
        self._number += 1
        metrics = {
            "trialId": self._trial, "trialRunId": 1, "stepsCompleted": self._number,
            "metrics": {"avgMetrics": {"loss": 1 / self._number, "accuracy": 0.5, "lr": 0.1}},
        }  # fmt: skip
        path = f"/api/v1/trials/{self._trial}/metrics"
        body = {"metrics": metrics, "group": "training"}
        call(self._api, "POST", path, self._task["session_token"], body)


def cpu_ms_of(ask: Callable[[], object], pids: Sequence[list[int]]) -> list[float]:
    """Return the CPU time that each group of processes spends on one call."""
    for _ in range(WARMING):
        ask()
    before = [cpu_ms(group) for group in pids]
    for _ in range(ROUNDS):
        ask()
    return [(cpu_ms(group) - since) / ROUNDS for group, since in zip(pids, before, strict=True)]


def pid_of(function: LambdaRuntime) -> list[int]:
    assert function.process is not None
    return [function.process.pid]


def measured(
    task: Path, database: EmbeddedPostgres, environment: Mapping[str, str]
) -> dict[str, float]:
    """Return CPU milliseconds of an average request, and of a tick that finds unchanged work."""
    shares = {"polls": STEADY_POLLS, "ships": LOG_BATCHES, "reports": REPORTS}
    total = sum(shares.values())
    assert database.pid is not None
    with (
        LambdaRuntime(task, "app.app", environment) as api,
        LambdaRuntime(task, "app.tick", environment) as tick,
    ):
        busy = Busy(api, tick)
        server = list(tree(database.pid))
        function_ms, server_ms = 0.0, 0.0
        for kind, share in shares.items():
            cost = cpu_ms_of(getattr(busy, kind), (pid_of(api), server))
            function_ms += share / total * cost[0]
            server_ms += share / total * cost[1]
        (tick_ms,) = cpu_ms_of(lambda: tick.invoke({}), (pid_of(tick),))
    return {
        "warm_request_function_cpu": function_ms,
        "warm_request_database_cpu": server_ms,
        "warm_tick_function_cpu": tick_ms,
    }


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        package = packaging.build(folder / "out")
        with zipfile.ZipFile(package) as archive:
            archive.extractall(folder / "task")
        with EmbeddedPostgres(folder / "data", throwaway=True) as database:
            migrate(database.url())
            environment = {
                "DET_DB_URL": database.url(),
                "DET_DB_POOL_SIZE": "1",
                "DET_OBJECTS": str(folder / "objects"),
                "DET_OBJECTS_SECRET": "secret",
                "DET_BOOTSTRAP_TOKEN": "bootstrap",
                "DET_INITIAL_USER_PASSWORD": "Password1",
                "DET_CLUSTER_CONFIG": '{"checkpoint_storage": {"type": "s3", "bucket": "checkpoints"}}',
            }
            figures = measured(folder / "task", database, environment)
    floors = (FUNCTION_CPU_S, DATABASE_CPU_S, TICK_CPU_S)
    for (name, value), floor_s in zip(figures.items(), floors, strict=True):
        line = {"name": name, "value": round(value, 2), "unit": "ms", "floor": floor_s * 1000}
        print(json.dumps({**line, "better": "lower", "peer": None}), flush=True)


if __name__ == "__main__":
    main()
