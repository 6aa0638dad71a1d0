"""The provider of examples/provider, installed as a user installs it: its own tests pass, and a pool rents from it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import Cluster, local_cluster
from tests.support.ports import free_port
from tests.support.processes import alive, eventually

pytestmark = pytest.mark.slow
EXAMPLE = Path(__file__).resolve().parents[2] / "examples/provider"
POOLS = """
resource_pools:
- pool_name: default
- pool_name: garage
  provider: {{type: garage, region: home, instance_type: bench, niceness: 3, max_instances: 1,
              max_idle_agent_period: 1s, master_url: "http://127.0.0.1:{port}"}}
"""
CONFIG = """
name: in the garage
entrypoint: echo trained on $DET_AGENT_ID
searcher: {name: single, metric: loss, max_length: {batches: 1}}
resources: {slots_per_trial: 1, resource_pool: garage}
max_restarts: 0
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the example into a folder. Return the folder."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation",
               "--target", str(folder), str(EXAMPLE)]  # fmt: skip
    subprocess.run(command, check=True, timeout=300)
    return folder


@pytest.fixture
def garage(installed: Path, tmp_path: Path) -> Iterator[tuple[Cluster, Path]]:
    """Start a cluster with a pool in the garage. Return it with the folder of the garage."""
    folder, port = tmp_path / "garage", free_port()
    environ = {"PYTHONPATH": str(installed), "GARAGE_FOLDER": str(folder)}
    try:
        with local_cluster(
            tmp_path,
            runtime="process",
            slots=1,
            config=POOLS.format(port=port),
            port=port,
            environ=environ,
        ) as cluster:
            yield cluster, folder
    finally:
        for machine in machines(folder):
            with suppress(ProcessLookupError):
                os.kill(machine["pid"], signal.SIGKILL)


def machines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in folder.glob("*.json")]


def test_the_contract_kit_passes_for_the_installed_package(installed: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", str(tmp_path),
               str(EXAMPLE / "tests")]  # fmt: skip
    result = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stdout
    assert " passed" in result.stdout


def test_a_pool_rents_a_machine_trains_on_it_and_ends_it(
    garage: tuple[Cluster, Path], tmp_path: Path
) -> None:
    cluster, folder = garage
    (tmp_path / "config.yaml").write_text(CONFIG)
    (tmp_path / "code").mkdir()
    experiment = cluster.train(tmp_path / "config.yaml", tmp_path / "code")
    (trial,) = cluster.trials(experiment)
    (machine,) = machines(folder)
    assert f"trained on garage-{machine['cloud_id']}" in cluster.logs(trial["id"])
    cluster.until(lambda: machines(folder)[0]["ended_because"], "the idle machine was terminated")
    assert eventually(lambda: not alive(machine["pid"]), 60)
    rented = cluster.run("instance", "list", "--all", "--json", environ={"DET_USER": "admin"})
    (listed,) = rented.json()
    assert (listed["provider"], listed["machineType"], listed["pool"]) == (
        "garage",
        "bench",
        "garage",
    )


def test_a_cluster_without_the_package_does_not_start(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, free_port(), "process")
    (tmp_path / "cluster.yaml").write_text(POOLS.format(port=cluster.port))
    up = cluster.run(
        "deploy", "local", "cluster-up", "--data-dir", tmp_path / "data", "--config", tmp_path / "cluster.yaml",
        "--initial-user-password", "", "--master-port", str(cluster.port),
    )  # fmt: skip
    assert up.code != 0
    assert (
        "a resource pool rents from 'garage', and no installed package has this provider" in up.err
    )
