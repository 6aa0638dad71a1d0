"""Measure the time of polls with 1,000 agents and 100 active trials on this machine: `python -m bench.fleet`.

Each agent polls every ten seconds, as a steady agent does if polls are not held. Threads of this process make the load,
on the same processors.
"""

import http.client
import json
import statistics
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from bench.api import Cluster, figure, running
from bench.cost import STEADY_POLLS

AGENTS, TRIALS, CALLERS = 1000, 100, 16
INTERVAL_S = 3600 / STEADY_POLLS
MEASURED_S = 30.0
PLACED_S = 120.0
CONFIG = """
name: fleet
entrypoint: python3 train.py
hyperparameters: {seed: {type: int, minval: 0, maxval: 1000000}}
searcher: {name: random, metric: loss, max_trials: %d, max_concurrent_trials: %d, max_length: {batches: 100}}
max_restarts: 0
"""


@dataclass
class Agent:
    """An agent that only reports running containers."""

    number: int
    incarnation: str = field(default_factory=lambda: str(uuid.uuid4()))
    token: str = ""
    polls: int = 0
    running: dict[str, int] = field(default_factory=dict)

    def joining(self, bootstrap_token: str) -> dict[str, Any]:
        slot = {"id": 0, "type": "cpu", "uuid": f"u{self.number}", "brand": "Artificial"}
        return {
            "agent_id": f"agent-{self.number:04}", "agent_key": f"key-{self.number}", "incarnation": self.incarnation,
            "pool": "default", "version": "0.38.1", "hostname": "h", "addresses": ["127.0.0.1"], "runtime": "process",
            "slots": [slot], "proof": {"kind": "bootstrap_token", "token": bootstrap_token},
        }  # fmt: skip

    def report(self) -> dict[str, Any]:
        self.polls += 1
        reports = [{"id": i, "epoch": e, "state": "running"} for i, e in self.running.items()]
        return {
            "incarnation": self.incarnation, "seq": self.polls, "containers": reports, "signals": [],
        }  # fmt: skip

    def read(self, answer: dict[str, Any]) -> None:
        self.running = {c["id"]: c["epoch"] for c in answer["containers"]}


class Callers:
    """Threads that send requests of agents, each with its own connection."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._own = threading.local()
        self._pool = ThreadPoolExecutor(CALLERS)

    def each(self, agents: list[Agent], do: Callable[[Agent], float]) -> list[float]:
        return list(self._pool.map(do, agents))

    def post(self, path: str, body: Any, token: str = "") -> Any:
        connection = getattr(self._own, "connection", None)
        if connection is None:
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
            self._own.connection = connection
        connection.request("POST", path, json.dumps(body), {"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        raw = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status} {raw[:200]!r}")
        return json.loads(raw)

    def poll(self, agent: Agent) -> float:
        """Poll once, and return the time that it took."""
        body = agent.report()
        start = time.perf_counter()
        answer = self.post("/agents/v1/poll", body, agent.token)
        seconds = time.perf_counter() - start
        agent.read(answer)
        return seconds


def steady(callers: Callers, agents: list[Agent]) -> tuple[list[float], float]:
    """Let the agents poll at their rate, evenly spread. Return the times of polls, and the share that began late."""
    start, late = time.perf_counter(), []

    def in_turn(numbered: tuple[int, Agent]) -> list[float]:
        number, agent = numbered
        wait_s = start + number * INTERVAL_S / AGENTS - time.perf_counter()
        late.append(wait_s < -0.5)
        time.sleep(max(0.0, wait_s))
        return [callers.poll(agent)]

    rounds = int(MEASURED_S / INTERVAL_S)
    turns = [(turn * AGENTS + n, a) for turn in range(rounds) for n, a in enumerate(agents)]
    times = [s for part in callers._pool.map(in_turn, turns) for s in part]
    return times, sum(late) / len(late)


def measure(cluster: Cluster) -> None:
    callers = Callers(cluster.port)
    agents = [Agent(number) for number in range(AGENTS)]
    bootstrap_token = cluster.files.token.read_text().strip()

    def join(agent: Agent) -> float:
        answer = callers.post("/agents/v1/join", agent.joining(bootstrap_token))
        agent.token = answer["agent_token"]
        return callers.poll(agent)

    callers.each(agents, join)
    config = CONFIG % (TRIALS, TRIALS)
    cluster.call(
        "POST", "/api/v1/experiments", {"config": config, "modelDefinition": [], "activate": True}
    )
    limit = time.monotonic() + PLACED_S
    while sum(len(agent.running) for agent in agents) < TRIALS:
        assert time.monotonic() < limit, "the trials are not placed"
        callers.each(agents, callers.poll)
    times, late = steady(callers, agents)
    running = sum(len(agent.running) for agent in agents)
    figure("fleet_poll_p50_ms", statistics.median(times) * 1000, "ms", None)
    figure("fleet_poll_p99_ms", statistics.quantiles(times, n=100)[98] * 1000, "ms", 200)
    figure("fleet_polls_begun_late", late, "of all", 0.01)
    figure("fleet_polls_unanswered", AGENTS * int(MEASURED_S / INTERVAL_S) - len(times), "polls", 0)
    figure("fleet_trials_lost", TRIALS - running, "trials", 0)


def main() -> None:
    with running() as cluster:
        cluster.sign_in()
        measure(cluster)


if __name__ == "__main__":
    main()
