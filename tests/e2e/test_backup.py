"""A restored copy of a running cluster continues from the snapshot."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from det_controlplane.adapters.embedded_postgres import EmbeddedPostgres
from det_controlplane.db.cluster.restores import rows_of
from det_controlplane.entry.local.backup_archive import read_manifest
from det_controlplane.entry.local.files import LocalFiles

from tests.e2e.conftest import Held
from tests.e2e.test_walking import let_on, start, until_step
from tests.support.cluster import Cluster, local_cluster
from tests.support.ports import free_port

pytestmark = pytest.mark.slow
PASSWORD = "Long-enough-1"


@pytest.fixture
def original(tmp_path: Path) -> Iterator[Cluster]:
    folder = tmp_path / "original"
    folder.mkdir()
    with local_cluster(folder, runtime="process", slots=2, password=PASSWORD) as cluster:
        yield cluster


@contextmanager
def started(cluster: Cluster) -> Iterator[Cluster]:
    data = str(cluster.folder / "data")
    try:
        cluster.det(
            "deploy", "local", "cluster-up", "--data-dir", data, "--master-port", str(cluster.port)
        )
        yield cluster
    finally:
        cluster.run("deploy", "local", "cluster-down", "--data-dir", data)


def another_gate(holder: Held, tmp_path: Path) -> Held:
    """Return the same training, which waits for its own gate."""
    gate = tmp_path / "second" / "open"
    gate.parent.mkdir()
    config = yaml.safe_load(
        holder.config.read_text().replace(str(holder.gate.parent), str(gate.parent))
    )
    path = tmp_path / "second.yaml"
    path.write_text(yaml.safe_dump(config))
    return replace(holder, config=path, gate=gate)


def results(cluster: Cluster, experiment_id: int, trial_id: int) -> tuple[Any, ...]:
    """Return the results of an experiment as users see them."""
    return (
        cluster.trials(experiment_id)[0]["summaryMetrics"],
        [(c["uuid"], c["state"], c["resources"]) for c in checkpoints(cluster, experiment_id)],
        [line["log"] for line in cluster.task_logs(trial_id)],
        cluster.get(f"/api/v1/trials/{trial_id}/workloads?limit=100")["workloads"],
    )


def checkpoints(cluster: Cluster, experiment_id: int) -> list[dict[str, Any]]:
    listed_checkpoints: list[dict[str, Any]] = cluster.get(
        f"/api/v1/experiments/{experiment_id}/checkpoints"
    )["checkpoints"]
    return listed_checkpoints


def test_copy_of_a_running_cluster_resumes_from_the_checkpoints(
    original: Cluster, held: Held, tmp_path: Path
) -> None:
    paused_experiment, paused_trial = start(original, held)
    until_step(original, paused_trial, "saved step 20")
    original.det("experiment", "pause", str(paused_experiment))
    until_step(original, paused_trial, "preempted at step")
    original.until(lambda: not original.get("/api/v1/tasks")["allocationIdToSummary"], "it rests")
    second = another_gate(held, tmp_path)
    running, running_trial = start(original, second)
    until_step(original, running_trial, "saved step 20")
    before = results(original, paused_experiment, paused_trial)

    path = tmp_path / "one.backup"
    data = original.folder / "data"
    output = original.det("deploy", "local", "backup", path, "--data-dir", data)
    assert "warning" not in output.err
    assert path.stat().st_mode & 0o777 == 0o600
    # End the original cluster's experiment, and delete all its files. The copy must not need them.
    let_on(original, second, running, running_trial, restarts=0)
    second.gate.unlink()
    original.down()
    shutil.rmtree(data)

    (tmp_path / "copy").mkdir()
    copy = Cluster(tmp_path / "copy", free_port(), "process", password=PASSWORD)
    new_data = copy.folder / "data"
    copy.det("deploy", "local", "restore", path, "--data-dir", new_data)
    with EmbeddedPostgres(LocalFiles(new_data).database, throwaway=True) as server:
        assert rows_of(server.url()) == read_manifest(path).rows
    with started(copy):
        assert results(copy, paused_experiment, paused_trial) == before
        assert copy.experiment(paused_experiment)["state"] == "STATE_PAUSED"
        until_step(copy, running_trial, "resumed at step 20")
        let_on(copy, second, running, running_trial, restarts=0)
        copy.det("experiment", "activate", str(paused_experiment))
        logs = let_on(copy, held, paused_experiment, paused_trial, restarts=0)
        preemption = re.search(r"preempted at step (\d+)", logs)
        assert preemption is not None
        assert f"resumed at step {preemption.group(1)}" in logs
        completed = {
            c["uuid"]
            for c in checkpoints(copy, paused_experiment)
            if c["state"] == "STATE_COMPLETED"
        }
        assert completed
        assert completed <= {p.name for p in (new_data / "checkpoints").iterdir()}
    assert not data.exists(), "the copy must not write to the directory of the original"
