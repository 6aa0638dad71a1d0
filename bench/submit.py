"""Measure the time from `det experiment create` to the first line of the user's code: `python -m bench.submit`.

The cluster is warm and has one agent. The time runs from the start of the command until the API returns the line.
Containers are measured if a Docker engine answers and has the image, which `scripts/test-image` builds.
"""

import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import docker
from det_controlplane.entry.local.commands import main as deploy_local
from docker.errors import DockerException, ImageNotFound

from bench.api import Cluster, figure

IMAGE = "det-test:latest"
ROUNDS = 5
LOOK_S = 0.02
LONGEST_S = 60.0
SAID = "the first line"
CONFIG = """
name: submit
entrypoint: python3 -u train.py
searcher: {name: single, metric: loss, max_length: {batches: 1}}
max_restarts: 0
"""


class ClusterWithAgent(Cluster):
    runtime = "process"

    def do(self, action: str) -> None:
        flags = {
            "data_dir": str(self.files.folder), "agents": 1, "slots_per_agent": 2, "no_gpu": True,
            "container_runtime": self.runtime, "master_port": self.port, "initial_user_password": "",
            "config": str(self.files.folder.parent / "cluster.yaml"),
        }  # fmt: skip
        code = deploy_local(action, Namespace(**flags))
        assert code == 0, f"{action} ended with {code}"

    def log(self, experiment_id: int) -> str:
        trials = self.call("GET", f"/api/v1/experiments/{experiment_id}/trials")["trials"]
        if not trials:
            return ""
        path = f"/api/v1/trials/{trials[0]['id']}/logs"
        headers = {"Authorization": f"Bearer {self.token}"}
        self._connection.request("GET", path, headers=headers)
        return self._connection.getresponse().read().decode()


@contextmanager
def running(runtime: str) -> Iterator[ClusterWithAgent]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch)
        (folder / "cluster.yaml").write_text(f"task_container_defaults: {{image: '{IMAGE}'}}\n")
        cluster = ClusterWithAgent(folder / "cluster")
        cluster.runtime = runtime
        cluster.do("cluster-up")
        cluster.sign_in()
        try:
            yield cluster
        finally:
            cluster.do("cluster-down")


def first_line_s(cluster: ClusterWithAgent, folder: Path) -> float:
    environment = {"DET_MASTER": f"http://127.0.0.1:{cluster.port}", "DET_USER": "determined"}
    environment |= {"DET_PASS": "", "XDG_CONFIG_HOME": str(folder), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-m", "det_cli.main", "e", "create", "submit.yaml", "code"]
    start = time.perf_counter()
    result = subprocess.run(
        command, cwd=folder, env=environment, check=True, capture_output=True, text=True
    )
    experiment_id = int(result.stdout.split()[-1])
    while SAID not in cluster.log(experiment_id):
        assert time.perf_counter() - start < LONGEST_S, cluster.log(experiment_id)
        time.sleep(LOOK_S)
    return time.perf_counter() - start


def measure(runtime: str) -> float:
    with running(runtime) as cluster, tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "code").mkdir()
        (folder / "code/train.py").write_text(f"print({SAID!r})\n")
        (folder / "submit.yaml").write_text(CONFIG)
        first_line_s(cluster, folder)
        return min(first_line_s(cluster, folder) for _ in range(ROUNDS))


def image_is_here() -> bool:
    try:
        client = docker.from_env()
    except DockerException:
        return False
    try:
        client.images.get(IMAGE)
    except ImageNotFound:
        return False
    finally:
        client.close()
    return True


def main() -> None:
    figure("submit_to_first_line_process", measure("process"), "s", 2.0)
    if image_is_here():
        figure("submit_to_first_line_docker", measure("docker"), "s", 4.0)
    else:
        print(
            "no Docker engine with the image of the tests: containers are left out", file=sys.stderr
        )


if __name__ == "__main__":
    main()
