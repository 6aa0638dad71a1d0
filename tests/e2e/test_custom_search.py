"""A search method of a user drives real trials, and its runner does not survive everything; the search does."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.conftest import in_docker_on_demand
from tests.support.cluster import ROOT, Cluster

LENGTHS = [4] * 6 + [12] * 2 + [36]


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """Trials train past their first length when it exists."""
    (tmp_path / "gate").mkdir()
    return tmp_path / "gate" / "open"


@pytest.fixture
def code(tmp_path: Path, gate: Path) -> Path:
    folder = tmp_path / "code"
    shutil.copytree(Path(__file__).parent / "searched", folder)
    shutil.copy(ROOT / "examples/custom_search/halving.py", folder)
    # In every container the gate has the path that it has here.
    place = str(gate.parent)
    more = {
        "environment": {"environment_variables": [f"SEARCHED_GATE={gate}"]},
        "bind_mounts": [{"host_path": place, "container_path": place}],
    }
    with (folder / "searched.yaml").open("a") as config:
        config.write(yaml.safe_dump(more))
    return folder


def experiments(cluster: Cluster, name: str) -> list[dict[str, Any]]:
    listed_experiments = cluster.get("/api/v1/experiments?limit=-1")["experiments"]
    return [e for e in listed_experiments if e["name"] == name and e["state"] != "STATE_CANCELED"]


def searched(cluster: Cluster, earlier: list[int]) -> int | None:
    """Return the experiment that the runner made since."""
    new = [e["id"] for e in experiments(cluster, "searched") if e["id"] not in earlier]
    assert len(new) <= 1, "the runner created its experiment twice"
    return new[0] if new else None


def wait_for_validations(cluster: Cluster, earlier: list[int], count: int) -> int:
    def some() -> int | None:
        experiment_id = searched(cluster, earlier)
        trials = cluster.trials(experiment_id) if experiment_id else []
        return (
            experiment_id if sum(t["bestValidation"] is not None for t in trials) >= count else None
        )

    experiment_id: int = cluster.until(some, f"{count} trials have validated")
    return experiment_id


def assert_halved(cluster: Cluster, experiment_id: int) -> None:
    """Check that each trial trained once and as far as its rank earns, and the best for longest."""
    trials = cluster.trials(experiment_id)
    by_loss = sorted(trials, key=lambda t: t["searcherMetricValue"])
    assert sorted(t["totalBatchesProcessed"] for t in trials) == LENGTHS
    assert by_loss[0]["totalBatchesProcessed"] == 36
    assert {t["state"] for t in trials} == {"STATE_COMPLETED"}
    assert {t["restarts"] for t in trials} == {0}
    for trial in trials:
        lines = [line["message"] for line in cluster.task_logs(trial["id"])]
        lengths = [line.split()[-1] for line in lines if "asked to train to" in line]
        assert lengths == [str(n) for n in (4, 12, 36) if n <= trial["totalBatchesProcessed"]]


@in_docker_on_demand
def test_restarted_local_runner_continues_its_search(
    cluster: Cluster, code: Path, gate: Path
) -> None:
    earlier = [e["id"] for e in experiments(cluster, "searched")]

    @contextmanager
    def running() -> Iterator[subprocess.Popen[bytes]]:
        """A runner that does not outlive a test that fails."""
        command = [sys.executable, "runner.py", "state"]
        with subprocess.Popen(
            command, cwd=code, env=cluster.env, stdout=subprocess.DEVNULL
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    with running() as first:
        experiment_id = wait_for_validations(cluster, earlier, 3)
        first.kill()
    assert not cluster.experiment(experiment_id)["endTime"]
    gate.touch()
    with running() as second:
        assert cluster.until_state(experiment_id, "COMPLETED", "ERROR", "CANCELED") == "COMPLETED"
        assert second.wait(timeout=180) == 0
    assert searched(cluster, earlier) == experiment_id
    assert_halved(cluster, experiment_id)


def test_runner_in_a_task_survives_a_kill_and_a_preemption(
    cluster: Cluster, code: Path, gate: Path
) -> None:
    earlier = [e["id"] for e in experiments(cluster, "searched")]
    runner_id = cluster.create(code / "in_cluster.yaml", code)
    experiment_id = wait_for_validations(cluster, earlier, 2)
    runner_trial = cluster.trials(runner_id)[0]["id"]
    cluster.kill_containers_of(runner_trial)
    wait_for_validations(cluster, earlier, 5)
    cluster.det("experiment", "pause", str(runner_id))
    cluster.until(
        lambda: not cluster.containers_of(runner_trial), "the runner left because it was asked to"
    )
    gate.touch()
    cluster.det("experiment", "activate", str(runner_id))
    for each in (experiment_id, runner_id):
        assert cluster.until_state(each, "COMPLETED", "ERROR", "CANCELED") == "COMPLETED"
    assert searched(cluster, earlier) == experiment_id
    assert cluster.trials(runner_id)[0]["restarts"] == 1
    assert_halved(cluster, experiment_id)
