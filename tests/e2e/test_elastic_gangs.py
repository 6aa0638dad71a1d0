"""An elastic trial on four agents loses one by SIGKILL, continues on three, and keeps its samples."""

import json
import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

import pytest
import yaml

from tests.e2e.conftest import Layout, in_processes
from tests.support import ml
from tests.support.cluster import Cluster, pids_with

pytestmark = pytest.mark.slow
CODE = Path(__file__).parent / "elastic"
RECORDS, EPOCH = 240, 10  # batches of an epoch
LEASE_S = 30.0
Note = tuple[float, str, int, list[int]]  # the time, the run, the number of a batch and its records


@pytest.fixture(scope="module")
def layout() -> Layout:
    return Layout(agents=4, slots=1, task_defaults=ml.task_defaults("ml"))


def batches(cluster: Cluster, trial_id: int) -> list[Note]:
    """Return the time, the run, the number and the records of each batch in the log, in order."""
    entries = []
    for entry in cluster.task_logs(trial_id):
        match = re.search(r"\|\| batch (\d+) (\[.*\])", entry["log"])
        if match:
            at = datetime.fromisoformat(entry["timestamp"].replace("Z", "+00:00")).timestamp()
            entries.append((at, entry["allocationId"], int(match[1]), yaml.safe_load(match[2])))
    return entries


def starts(cluster: Cluster, trial_id: int, run: str) -> list[float]:
    """Return the times of the batches of a run."""
    return [at for at, id, *_ in batches(cluster, trial_id) if id == run]


@contextmanager
def without_supervisor(cluster: Cluster) -> Iterator[None]:
    """Stop the supervisor, which would start a killed agent again."""
    pid = int((cluster.folder / "data" / "supervisor.lock").read_text().split()[0])
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def variable(pid: int, name: str) -> str:
    """Return a variable of a process, or ''."""
    environment = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    return dict(entry.partition("=")[::2] for entry in environment).get(name, "")


def kill_agent(cluster: Cluster, pid: int) -> float:
    """Send SIGKILL to the agent with a process, and to all processes of its container. Return the time."""
    agent = variable(pid, "DET_AGENT_ID")
    killed_at = time.time()
    cluster.kill("det_agent", agent)
    for member in pids_with(f"DET_CLUSTER_ID={cluster.cluster_id()}", f"DET_AGENT_ID={agent}"):
        with suppress(ProcessLookupError):
            os.kill(member, signal.SIGKILL)
    return killed_at


@in_processes
def test_trial_continues_on_three_of_four_agents(cluster: Cluster) -> None:
    experiment_id = cluster.create(CODE / "elastic.yaml", CODE)
    trial_id = int(cluster.until(lambda: cluster.trials(experiment_id), "a trial exists")[0]["id"])
    path = f"/api/v1/trials/{trial_id}/checkpoints"
    cluster.until(lambda: cluster.get(path)["checkpoints"], "a checkpoint was saved")
    second = f"{cluster.trials(experiment_id)[0]['taskId']}.2"
    with without_supervisor(cluster):
        killed_at = kill_agent(cluster, cluster.containers_of(trial_id)[0])
        cluster.until(lambda: starts(cluster, trial_id, second), "the next run trains")
        reason = cluster.det("why", str(experiment_id)).out
    pause_s = starts(cluster, trial_id, second)[0] - killed_at
    print(f"from kill -9 to the next batch: {pause_s:.1f} s")
    assert "3 of 4 slots" in reason
    assert cluster.until_state(experiment_id, "COMPLETED", "ERROR") == "COMPLETED"
    assert cluster.trials(experiment_id)[0]["restarts"] == 0
    assert pause_s < LEASE_S
    assert_every_epoch_is_complete(batches(cluster, trial_id))


@in_processes
def test_trial_with_replicas_loses_at_most_one_step_with_the_machine_of_its_chief(
    cluster: Cluster, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    notes.touch()
    more = ("--config", f"hyperparameters.notes={notes}")
    experiment_id = cluster.create(CODE / "replicated.yaml", CODE, *more)
    trial_id = int(cluster.until(lambda: cluster.trials(experiment_id), "a trial exists")[0]["id"])
    first, second = (f"{cluster.trials(experiment_id)[0]['taskId']}.{run}" for run in (1, 2))
    cluster.until(lambda: len(read(notes)) > 4 * 12, "twelve batches were trained")
    folders = replica_folders(cluster, trial_id)
    with without_supervisor(cluster):
        chief = pids_with(f"DET_CLUSTER_ID={cluster.cluster_id()}", "RANK=0")[0]
        killed_at = kill_agent(cluster, chief)
        cluster.until(lambda: any(n[1] == second for n in read(notes)), "the next run trains")
    pause_s = min(at for at, run, *_ in read(notes) if run == second) - killed_at
    trained = 1 + max(batch for _, run, batch, _ in read(notes) if run == first)
    resumed = min(batch for _, run, batch, _ in read(notes) if run == second)
    print(f"from kill -9 to the next batch: {pause_s:.1f} s; {trained - resumed} steps lost")
    assert 12 <= resumed <= trained <= resumed + 1
    assert cluster.until_state(experiment_id, "COMPLETED", "ERROR") == "COMPLETED"
    assert f"continuing from the replica of step {resumed} in memory" in cluster.logs(trial_id)
    assert_every_epoch_is_complete(read(notes))
    assert len(folders) == 4
    cluster.until(lambda: not any(f.exists() for f in folders), "the agents free their memory")
    assert reported_batches(cluster, trial_id) == 120


def read(notes: Path) -> list[Note]:
    """Return the lines that the ranks wrote to a file."""
    return [tuple(json.loads(line)) for line in notes.read_text().splitlines()]


def replica_folders(cluster: Cluster, trial_id: int) -> set[Path]:
    """Return the directories in memory that the agents gave the trial."""
    variables = (variable(pid, "DET_REPLICA_DIR") for pid in cluster.containers_of(trial_id))
    return {Path(value) for value in variables if value}


def reported_batches(cluster: Cluster, trial_id: int) -> int:
    """Return the number of batches in the training metrics that count."""
    path = f"/api/v1/trials/{trial_id}/workloads?limit=1000&includeBatchMetrics=true"
    reports = [w["training"] for w in cluster.get(path)["workloads"] if w.get("training")]
    return sum(len(report["metrics"]["batchMetrics"]) for report in reports)


def assert_every_epoch_is_complete(notes: list[Note]) -> None:
    """Check that the last run of each batch, which counts, has each record of an epoch once."""
    last: dict[int, tuple[str, list[int]]] = {}
    for _, run, batch, records in notes:
        kept = last[batch][1] if batch in last and last[batch][0] == run else []
        last[batch] = run, [*kept, *records]
    assert sorted(last) == list(range(120))
    for first in range(0, 120, EPOCH):
        epoch = [record for n in range(first, first + EPOCH) for record in last[n][1]]
        assert sorted(epoch) == list(range(RECORDS))
