"""PyTorch trials over several agents, on whole clusters: two agents with two slots each, gloo between them."""

import os
import signal
from pathlib import Path

import pytest
import yaml

from tests.e2e.conftest import Layout, in_docker_on_demand, in_processes
from tests.support import ml
from tests.support.cluster import Cluster, pids_with
from tests.support.noisy_trials import (
    FOUR_SLOTS,
    SLOW_FIRST_RUN,
    finish,
    lines,
    losses,
    pause_and_resume,
    start,
    told,
    until_batch,
    until_saved,
    weights,
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def layout() -> Layout:
    return Layout(agents=2, slots=2, task_defaults=ml.task_defaults("ml"))


@pytest.fixture(scope="module")
def four_slots(cluster: Cluster) -> int:
    """An uninterrupted trial on all four slots."""
    experiment_id, trial_id = start(cluster, *FOUR_SLOTS)
    finish(cluster, experiment_id)
    return trial_id


# In Docker ranks of two containers meet in test_ssh_launchers.py, too.
@in_docker_on_demand
def test_four_ranks_in_two_containers_train_one_model(cluster: Cluster, four_slots: int) -> None:
    by_rank = told(cluster, four_slots)
    assert sorted(by_rank) == [0, 1, 2, 3]
    assert list(by_rank[0]) == list(range(2, 41, 2))
    assert by_rank[0] == by_rank[1] == by_rank[2] == by_rank[3]
    entries = [e for e in cluster.task_logs(four_slots) if "at batch 40" in e["log"]]
    assert len({e["containerId"] for e in entries}) == 2
    assert len({e["agentId"] for e in entries}) == 2
    output = cluster.logs(four_slots)
    assert all(f"[rank={rank}] || at batch 40" in output for rank in range(4))


@in_docker_on_demand
def test_paused_distributed_trial_resumes_with_the_same_losses(
    cluster: Cluster, four_slots: int
) -> None:
    experiment_id, trial_id = start(cluster, *FOUR_SLOTS, *SLOW_FIRST_RUN)
    until_batch(cluster, trial_id, 4)
    pause_and_resume(cluster, experiment_id)
    finish(cluster, experiment_id)
    starts = {int(match[1]) for _, match in lines(cluster, trial_id, r"starts at batch (\d+)")}
    assert len(starts) == 2
    assert losses(cluster, trial_id) == losses(cluster, four_slots)
    expected = told(cluster, four_slots)
    assert all(
        weights(told(cluster, trial_id), rank, 40) == weights(expected, rank, 40)
        for rank in range(4)
    )


@in_docker_on_demand
def test_killed_rank_restarts_the_trial_once_from_its_checkpoint(
    cluster: Cluster, four_slots: int
) -> None:
    experiment_id, trial_id = start(cluster, *FOUR_SLOTS, *SLOW_FIRST_RUN)
    until_saved(cluster, trial_id)
    marks = (f"DET_TRIAL_ID={trial_id}", f"DET_CLUSTER_ID={cluster.cluster_id()}")
    first = pids_with(*marks)
    os.kill(pids_with(*marks, "RANK=3")[0], signal.SIGKILL)
    finish(cluster, experiment_id, restarts=1)
    starts = [int(match[1]) for _, match in lines(cluster, trial_id, r"starts at batch (\d+)")]
    assert sorted(starts) == [0, 0, 0, 0, 10, 10, 10, 10]
    assert not set(first) & set(pids_with(*marks))
    assert losses(cluster, trial_id) == losses(cluster, four_slots)
    logs = cluster.logs(trial_id)
    assert "rank 3 failed with status 137; stopping ranks 2" in logs
    assert "goes on from its newest checkpoint, if it has one (restart 1 of 2)" in logs


@in_docker_on_demand
def test_trial_completes_if_one_rank_requests_a_stop(cluster: Cluster) -> None:
    experiment_id, trial_id = start(cluster, *FOUR_SLOTS, "--config", "hyperparameters.stop_at=13")
    finish(cluster, experiment_id)
    assert max(losses(cluster, trial_id)) == 13
    checkpoints = cluster.get(f"/api/v1/trials/{trial_id}/checkpoints")["checkpoints"]
    assert max(c["metadata"]["steps_completed"] for c in checkpoints) == 14


# A gang does this too; tests/harness/pytorch/test_resume.py shows it without a cluster.
@pytest.mark.heavy("pauses on one slot what is paused on four")
@in_processes
def test_paused_trial_of_one_slot_resumes_with_the_same_losses(
    cluster: Cluster,
) -> None:
    whole, whole_trial = start(cluster)
    paused_experiment, paused_trial = start(cluster, *SLOW_FIRST_RUN)
    until_batch(cluster, paused_trial, 4)
    pause_and_resume(cluster, paused_experiment)
    finish(cluster, whole)
    finish(cluster, paused_experiment)
    assert len(lines(cluster, paused_trial, "starts at batch")) == 2
    assert told(cluster, paused_trial)[0][40].split()[0] == weights(
        told(cluster, whole_trial), 0, 40
    )
    assert losses(cluster, paused_trial) == losses(cluster, whole_trial)
    assert len(losses(cluster, whole_trial)) == 40


@in_processes
@pytest.mark.parametrize(
    "entrypoint",
    [
        # Like examples/distributed_core_api, which test_gallery.py trains.
        pytest.param(
            "python3 -m determined.launch.torch_distributed python3 train.py",
            marks=pytest.mark.heavy("starts in one more way what an example does, too"),
        ),
        # Options before `--` are torchrun's, which then starts the workers: tests/harness/core/test_launch.py.
        pytest.param(
            "python3 -m determined.launch.torch_distributed --max_restarts=0 -- train.py",
            marks=pytest.mark.heavy("starts in one more way what an example does, too"),
        ),
        "python3 launcher.py python3 train.py",
    ],
    ids=["script", "by torchrun", "custom launcher"],
)
def test_every_way_to_start_a_trial_trains_the_same_model(
    cluster: Cluster, four_slots: int, entrypoint: str
) -> None:
    """The trial of `four_slots` is started by its class, without a command."""
    option = ("--config", f"entrypoint={entrypoint}")
    experiment_id, trial_id = start(cluster, *FOUR_SLOTS, *option)
    finish(cluster, experiment_id)
    assert told(cluster, trial_id) == told(cluster, four_slots)


def test_distributed_trial_waits_with_a_reason_for_all_its_slots(
    cluster: Cluster, tmp_path: Path
) -> None:
    def shell(command: str, slots: int) -> int:
        config = {
            "name": command,
            "entrypoint": ["bash", "-c", command],
            "searcher": {"name": "single", "metric": "loss"},
            "resources": {"slots_per_trial": slots},
            "max_restarts": 0,
        }
        (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
        return cluster.create(tmp_path / "config.yaml", tmp_path)

    one = shell("echo occupying; sleep 600", 1)
    trial = cluster.until(lambda: cluster.trials(one), "a trial exists")[0]["id"]
    cluster.until(lambda: lines(cluster, trial, "^occupying"), "the trial of one slot runs")
    gang = shell("echo all here", 4)
    cluster.until(lambda: "4 slots" in cluster.det("why", str(gang)).out, "the gang tells why")
    assert "1 of 2 agents is wholly free" in cluster.det("why", str(gang)).out
    assert not lines(cluster, cluster.trials(gang)[0]["id"], "^all here")
    cluster.det("experiment", "kill", str(one))
    assert cluster.until_state(gang, "COMPLETED", "ERROR") == "COMPLETED"
    here = [e["containerId"] for e in cluster.task_logs(cluster.trials(gang)[0]["id"])
            if e["log"].startswith("all here")]  # fmt: skip
    assert len(set(here)) == 2
