"""An elastic trial on four agents loses one by SIGKILL, continues on three, and keeps its samples."""

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


@pytest.fixture(scope="module")
def layout() -> Layout:
    return Layout(agents=4, slots=1, task_defaults=ml.task_defaults("ml"))


def batches(cluster: Cluster, trial_id: int) -> list[tuple[float, str, int, list[int]]]:
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


def kill_agent(cluster: Cluster, trial_id: int) -> float:
    """Send SIGKILL to an agent with a rank of the trial, and to all processes of its container. Return the time."""
    environment = Path(f"/proc/{cluster.containers_of(trial_id)[0]}/environ").read_bytes()
    mark = next(v for v in environment.decode().split("\0") if v.startswith("DET_AGENT_ID="))
    killed_at = time.time()
    cluster.kill("det_agent", mark.partition("=")[2])
    for pid in pids_with(f"DET_CLUSTER_ID={cluster.cluster_id()}", mark):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return killed_at


@in_processes
def test_trial_continues_on_three_of_four_agents(cluster: Cluster) -> None:
    experiment_id = cluster.create(CODE / "elastic.yaml", CODE)
    trial_id = int(cluster.until(lambda: cluster.trials(experiment_id), "a trial exists")[0]["id"])
    path = f"/api/v1/trials/{trial_id}/checkpoints"
    cluster.until(lambda: cluster.get(path)["checkpoints"], "a checkpoint was saved")
    second = f"{cluster.trials(experiment_id)[0]['taskId']}.2"
    with without_supervisor(cluster):
        killed_at = kill_agent(cluster, trial_id)
        cluster.until(lambda: starts(cluster, trial_id, second), "the next run trains")
        reason = cluster.det("why", str(experiment_id)).out
    pause_s = starts(cluster, trial_id, second)[0] - killed_at
    print(f"from kill -9 to the next batch: {pause_s:.1f} s")
    assert "3 of 4 slots" in reason
    assert cluster.until_state(experiment_id, "COMPLETED", "ERROR") == "COMPLETED"
    assert cluster.trials(experiment_id)[0]["restarts"] == 0
    assert pause_s < LEASE_S
    assert_every_epoch_is_complete(cluster, trial_id)


def assert_every_epoch_is_complete(cluster: Cluster, trial_id: int) -> None:
    """Check that the last run of each batch, which counts, has each record of an epoch once."""
    last: dict[int, tuple[str, list[int]]] = {}
    for _, run, batch, records in batches(cluster, trial_id):
        kept = last[batch][1] if batch in last and last[batch][0] == run else []
        last[batch] = run, [*kept, *records]
    assert sorted(last) == list(range(120))
    for first in range(0, 120, EPOCH):
        epoch = [record for n in range(first, first + EPOCH) for record in last[n][1]]
        assert sorted(epoch) == list(range(RECORDS))
