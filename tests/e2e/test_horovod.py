"""PyTorch trials under Horovod itself, on whole clusters: two agents with two slots each, gloo between them."""

import os
import signal

import pytest

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
)
from tests.support.ssh import require_ssh

pytestmark = pytest.mark.slow
# test_ssh_launchers.py tests the start of ranks and the failure of one for all launchers.
# harness/frameworks/test_horovod.py tests the resume of a training under Horovod.
HEAVY = pytest.mark.heavy("trains under Horovod for minutes what others train, too")
TWO_SLOTS = ("--config", "resources.slots_per_trial=2")
TRIAL = "--trial model_def:NoisyTrial"


def launched(launcher: str, code: str = TRIAL) -> tuple[str, str]:
    return "--config", f"entrypoint=python3 -m determined.launch.{launcher} {code}"


@pytest.fixture(scope="module")
def layout() -> Layout:
    require_ssh()
    return Layout(agents=2, slots=2, task_defaults=ml.task_defaults("horovod"))


@pytest.fixture(scope="module")
def two_slots(cluster: Cluster) -> int:
    """An uninterrupted trial on one machine."""
    experiment_id, trial_id = start(cluster, *TWO_SLOTS, *launched("horovod"))
    finish(cluster, experiment_id)
    return trial_id


@in_docker_on_demand
def test_two_ranks_in_one_container_train_one_model(cluster: Cluster, two_slots: int) -> None:
    by_rank = told(cluster, two_slots)
    assert sorted(by_rank) == [0, 1]
    assert list(by_rank[0]) == list(range(2, 41, 2))
    assert by_rank[0] == by_rank[1]


@HEAVY
@in_processes
@pytest.mark.parametrize(
    ("launcher", "what"),
    [("autohorovod", TRIAL), ("horovod", "--cycle-time-ms 5 -- python3 train.py")],
    ids=["autohorovod", "script"],
)
def test_every_way_to_start_a_trial_trains_the_same_model(
    cluster: Cluster, two_slots: int, launcher: str, what: str
) -> None:
    experiment_id, trial_id = start(cluster, *TWO_SLOTS, *launched(launcher, what))
    finish(cluster, experiment_id)
    assert told(cluster, trial_id) == told(cluster, two_slots)


@HEAVY
@in_docker_on_demand
def test_paused_trial_resumes_with_the_same_losses(cluster: Cluster, two_slots: int) -> None:
    experiment_id, trial_id = start(cluster, *TWO_SLOTS, *SLOW_FIRST_RUN, *launched("horovod"))
    until_batch(cluster, trial_id, 4)
    pause_and_resume(cluster, experiment_id)
    finish(cluster, experiment_id)
    starts = {int(match[1]) for _, match in lines(cluster, trial_id, r"starts at batch (\d+)")}
    assert len(starts) == 2
    assert losses(cluster, trial_id) == losses(cluster, two_slots)


@HEAVY
@in_docker_on_demand
def test_killed_rank_restarts_the_trial_from_its_checkpoint(
    cluster: Cluster,
) -> None:
    options = (*FOUR_SLOTS, *SLOW_FIRST_RUN, *launched("horovod"))
    experiment_id, trial_id = start(cluster, *options)
    until_saved(cluster, trial_id)
    marks = (f"DET_TRIAL_ID={trial_id}", f"DET_CLUSTER_ID={cluster.cluster_id()}")
    first = pids_with(*marks)
    os.kill(pids_with(*marks, "HOROVOD_RANK=3")[-1], signal.SIGKILL)
    finish(cluster, experiment_id, restarts=1)
    starts = sorted(
        int(match[1]) for _, match in lines(cluster, trial_id, r"starts at batch (\d+)")
    )
    assert starts == [0, 0, 0, 0, 10, 10, 10, 10]
    assert not set(first) & set(pids_with(*marks))
    by_rank = {
        rank: observed_losses[40] for rank, observed_losses in told(cluster, trial_id).items()
    }
    assert sorted(by_rank) == [0, 1, 2, 3]
    assert len(set(by_rank.values())) == 1
    assert "goes on from its newest checkpoint, if it has one (restart 1 of 2)" in cluster.logs(
        trial_id
    )
