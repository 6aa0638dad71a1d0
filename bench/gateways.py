"""Run the gateways of agents in separate processes that deliver to a cluster: `python -m bench.gateways URL`.

The agent is simulated: it joins, accepts trials, and reports them as running. The gateway, its spool on disk and the
delivery are the product's. The first line of stdin has the agent's token and its containers. Each further line is
answered with the processor time so far and the number of requests to the cluster.
"""

import contextlib
import json
import resource
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from det_agent.gateway import Gateway, GatewayDependencies
from det_agent.log_limits import LogLimits
from det_agent.report_delivery import ReportDelivery
from det_agent.runtime import ContainerKey, ContainerSessions
from det_agent.spool import Spool
from det_agent.trial_reports import TrialReports
from determined.common.connections import Connections

from bench.api import Cluster

POLL_S = 5.0


class Counted(Connections):
    requests = 0

    def exchange(self, *args: Any, **kw: Any) -> Any:
        self.requests += 1
        return super().exchange(*args, **kw)


class PlayedAgent:
    """A simulated agent that joins with some slots, and reports its trials as running."""

    def __init__(self, cluster: Cluster, name: str, slots: int) -> None:
        self._cluster, self._incarnation, self._seq = cluster, str(uuid.uuid4()), 0
        body = {
            "agent_id": name, "agent_key": "key", "incarnation": self._incarnation, "pool": "default",
            "version": "0.38.1", "hostname": name, "addresses": ["127.0.0.1"], "runtime": "process",
            "slots": [{"id": n, "type": "cpu", "uuid": f"{name}-{n}", "brand": "Artificial"} for n in range(slots)],
            "proof": {"kind": "bootstrap_token", "token": cluster.files.secrets().bootstrap_token},
        }  # fmt: skip
        self.token = str(cluster.call("POST", "/agents/v1/join", body, token="")["agent_token"])
        self.specs: dict[str, dict[str, Any]] = {}

    def poll(self) -> None:
        self._seq += 1
        running = [
            {"id": id, "epoch": spec["epoch"], "state": "running"}
            for id, spec in self.specs.items()
        ]
        body = {"incarnation": self._incarnation, "seq": self._seq, "containers": running}
        answer = self._cluster.call("POST", "/agents/v1/poll", body, token=self.token)
        for order in answer["containers"]:
            if order.get("spec"):
                self.specs[order["id"]] = order["spec"]


@dataclass(frozen=True)
class Spent:
    cpu_ms: float
    requests: int


class GatewayProcess:
    def __init__(self, url: str, agent: PlayedAgent) -> None:
        self.keys = [
            ContainerKey(id, s["epoch"], s["allocation_id"], s["task_id"], s["session_token"])
            for id, s in agent.specs.items()
        ]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.gateways", url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[1],
        )
        settings = {"token": agent.token, "keys": [asdict(key) for key in self.keys]}
        self.port = int(self._ask(json.dumps(settings)))

    def spent(self) -> Spent:
        return Spent(**json.loads(self._ask("spent")))

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _ask(self, line: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline()


@contextlib.contextmanager
def serving(cluster: Cluster, agents: list[PlayedAgent]) -> Iterator[list[GatewayProcess]]:
    """Serve the gateways of agents, and renew the agents' leases. No other thread may use `cluster.call` meanwhile."""
    end_event = threading.Event()

    def keep() -> None:
        while not end_event.wait(POLL_S):
            for agent in agents:
                agent.poll()

    keeper = threading.Thread(target=keep)
    keeper.start()
    gateways: list[GatewayProcess] = []
    try:
        for agent in agents:
            gateways.append(GatewayProcess(f"http://127.0.0.1:{cluster.port}", agent))
        yield gateways
    finally:
        end_event.set()
        keeper.join()
        for gateway in gateways:
            gateway.close()


def main() -> None:
    settings: Mapping[str, Any] = json.loads(sys.stdin.readline())
    with tempfile.TemporaryDirectory() as folder:
        upstream, sessions = Counted(sys.argv[1]), ContainerSessions()
        for key in settings["keys"]:
            sessions.open(ContainerKey.from_json(key))
        delivery = ReportDelivery(upstream, lambda: settings["token"])
        places = [Path(folder) / name for name in ("reports", "spool")]
        for place in places:
            place.mkdir()
        reports = TrialReports(places[0], delivery, lambda key, text: print(text, file=sys.stderr))
        logs = LogLimits(Spool(places[1]), "bench", 0, 0)
        gateway = Gateway(
            GatewayDependencies("bench", sessions, logs, reports, upstream), "127.0.0.1", 0
        )
        gateway.start()
        print(gateway.port, flush=True)
        for _ in sys.stdin:
            usage = resource.getrusage(resource.RUSAGE_SELF)
            cpu_ms = (usage.ru_utime + usage.ru_stime) * 1000
            print(json.dumps(asdict(Spent(cpu_ms, upstream.requests))), flush=True)


if __name__ == "__main__":
    main()
