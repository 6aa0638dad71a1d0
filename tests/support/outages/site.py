"""A local cluster, and agents that an outage can separate from its API.

Each agent serves its own pool, so that the work of a pool runs on a known agent.
"""

import os
import signal
import time
from collections.abc import Iterator, Sequence, Set
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import yaml
from det_controlplane.entry.local.files import LocalFiles

from tests.support.agents import AgentProcess
from tests.support.cluster import Cluster, local_cluster
from tests.support.outages.link import Link
from tests.support.processes import alive, eventually

SLOTS = 4


class SiteAgent:
    """The agent of a pool. It is a child of the cluster's supervisor if `process` is None."""

    def __init__(self, pool: str, process: AgentProcess | None, link: Link | None) -> None:
        self.id = agent_id(pool)
        self._process = process
        self._link = link

    @property
    def process(self) -> AgentProcess:
        assert self._process is not None, f"{self.id} is a child of the supervisor"
        return self._process

    @property
    def link(self) -> Link:
        assert self._link is not None, f"{self.id} has no link"
        return self._link


def agent_id(pool: str) -> str:
    return f"agent-of-{pool}"


class Site:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._files = LocalFiles(cluster.folder / "data")
        self._stopped: list[int] = []
        self._runs = True

    def stop_api(self) -> None:
        self._stop([self._pid("api")])

    def stop_database(self) -> None:
        """Stop PostgreSQL and all its processes. The postmaster stops first, so it cannot start others."""
        server = self._pid("postgres")
        self._stop([server])
        self._stop(children(server))

    def continue_stopped(self) -> None:
        while self._stopped:
            with suppress(ProcessLookupError):
                os.kill(self._stopped.pop(), signal.SIGCONT)

    def kill_control_plane(self) -> None:
        """Kill the supervisor, the API and PostgreSQL; agents and containers keep running."""
        if not self._runs:
            return
        supervisor = self._files.supervisor_pid()
        assert supervisor is not None
        pids = [supervisor, self._pid("api"), self._pid("postgres")]
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        assert eventually(lambda: not any(map(alive, pids)))
        self._runs = False

    def start_control_plane(self) -> None:
        if not self._runs:
            self.cluster.up_again()
        self._runs = True

    def api_log(self) -> str:
        return self._files.log("api").read_text(errors="replace")

    def _pid(self, name: str) -> int:
        return int(self._files.report()["processes"][name])

    def _stop(self, pids: Sequence[int]) -> None:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
            self._stopped.append(pid)


@contextmanager
def running_site(
    folder: Path, pools: Sequence[str], supervised: Set[str], runtime: str
) -> Iterator[tuple[Site, dict[str, SiteAgent]]]:
    """Start a cluster; yield it with the agent of each pool. The supervisor starts the agents of `supervised` pools."""
    folder.mkdir(parents=True)
    config = {
        "resource_pools": [{"pool_name": pool} for pool in pools],
        "resource_manager": {
            "default_compute_resource_pool": pools[0],
            "default_aux_resource_pool": pools[0],
        },
        "task_container_defaults": {"image": "det-test:latest"},
        "local_agents": [
            {"name": agent_id(pool), "pool": pool, "slots": SLOTS, "runtime": runtime}
            for pool in pools
            if pool in supervised
        ],
    }
    with ExitStack() as ends:
        text = yaml.safe_dump(config)
        cluster = ends.enter_context(local_cluster(folder, runtime=runtime, agents=0, config=text))
        site = Site(cluster)
        agents = {
            pool: SiteAgent(pool, None, None)
            if pool in supervised
            else ends.enter_context(_running_agent(cluster, pool))
            for pool in pools
        }
        ends.callback(site.continue_stopped)
        cluster.until(lambda: _joined(cluster) == len(pools), "all agents have joined")
        yield site, agents


@contextmanager
def _running_agent(cluster: Cluster, pool: str) -> Iterator[SiteAgent]:
    folder = cluster.folder / agent_id(pool)
    folder.mkdir()
    with Link(cluster.port).running() as link:
        options = {
            "agent-id": agent_id(pool),
            "resource-pool": pool,
            "slots": f"artificial:{SLOTS}",
            "runtime": cluster.runtime,
            "token-file": str(cluster.folder / "data" / "bootstrap.token"),
            "on-stop": "kill",
            "stop-grace": "1",
        }
        process = AgentProcess(f"http://127.0.0.1:{link.port}", folder, None, **options)
        try:
            yield SiteAgent(pool, process, link)
        finally:
            link.heal()
            if process.process.poll() is None:
                process.stop()
            process.close()


def _joined(cluster: Cluster) -> int:
    return len(cluster.get("/api/v1/agents")["agents"])


def children(pid: int) -> list[int]:
    pids: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        pids += map(int, task.read_text().split())
    return pids


def wait_until(moment: float) -> None:
    """Wait until a time of the monotonic clock."""
    time.sleep(max(0.0, moment - time.monotonic()))
