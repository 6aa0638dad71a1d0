"""Determined's own harness from PyPI, unchanged, trains on a whole cluster, in processes and in Docker."""

import re
import shutil
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.conftest import Layout
from tests.support import ml
from tests.support.cluster import Cluster

pytestmark = [
    pytest.mark.slow,
    pytest.mark.heavy("trains for minutes with another harness than ours"),
]
HERE = Path(__file__).parent
TORCHRUN = "python3 -W ignore -m determined.launch.torch_distributed"


@dataclass(frozen=True)
class Training:
    name: str
    code: Path
    entrypoint: str
    metric: str
    steps: int
    began: str  # a line of the log after which it is paused
    slots: int = 1
    hparams: dict[str, Any] = field(default_factory=dict)


TRAININGS = [
    Training(
        "core", HERE / "stock_harness", f"{TORCHRUN} python3 -W ignore meet.py", "loss", 6,
        r"step 2 of \[0, 1\] by 0\.38\.1", slots=2,
    ),
    Training(
        "pytorch", HERE / "distributed", f"{TORCHRUN} --trial model_def:NoisyTrial",
        "validation_loss", 20, "at batch 10", slots=2,
        hparams={"global_batch_size": 4, "pause_s": 2, "batches": 20},
    ),
    Training(
        "transformers", HERE / "frameworks", "python3 -W ignore transformers_train.py",
        "eval_loss", 40, "did step 3",
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def layout() -> Layout:
    return Layout(slots=sum(t.slots for t in TRAININGS), task_defaults=ml.task_defaults("stock"))


def configuration(training: Training) -> str:
    return yaml.safe_dump(
        {
            "name": training.name,
            "entrypoint": f"sh as_container.sh {training.entrypoint}",
            # The harness is older than torch 2.6, which unpickles checkpoints of Trials only on request.
            "environment": {"environment_variables": ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1"]},
            "resources": {"slots_per_trial": training.slots},
            "hyperparameters": training.hparams,
            "searcher": {
                "name": "single",
                "metric": training.metric,
                "max_length": {"batches": training.steps},
            },
            "min_checkpoint_period": {"batches": 10},
            "scheduling_unit": 2,
            "max_restarts": 0,
        }
    )


def trained(cluster: Cluster, training: Training, folder: Path) -> int:
    """Train an experiment that is paused and resumed. Return its trial."""
    context = shutil.copytree(training.code, folder / training.name)
    shutil.copy(HERE / "stock_harness" / "as_container.sh", context)
    path = folder / f"{training.name}.yaml"
    path.write_text(configuration(training))
    experiment_id = cluster.create(path, context)
    trial_id = int(cluster.until(lambda: cluster.trials(experiment_id), "a trial exists")[0]["id"])
    has_begun = re.compile(training.began)

    def begins() -> bool:
        has_ended = cluster.experiment(experiment_id)["state"] in ("STATE_ERROR", "STATE_COMPLETED")
        assert not has_ended, cluster.logs(trial_id)
        return any(has_begun.search(line["log"]) for line in cluster.task_logs(trial_id))

    cluster.until(begins, f"{training.name} trains", timeout_s=400)
    cluster.det("experiment", "pause", str(experiment_id))
    cluster.until(lambda: not allocations(cluster, trial_id), "its slots are free")
    cluster.det("experiment", "activate", str(experiment_id))
    state = cluster.until_state(experiment_id, "COMPLETED", "ERROR", timeout_s=480)
    assert state == "COMPLETED", cluster.logs(trial_id)
    return trial_id


def allocations(cluster: Cluster, trial_id: int) -> list[Any]:
    live = cluster.get("/api/v1/tasks")["allocationIdToSummary"].values()
    return [task for task in live if task["name"].startswith(f"Trial {trial_id} ")]


@pytest.fixture(scope="module")
def all_training(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, "Future[int]"]]:
    """Trains all at once: most of the time of each is waiting."""
    folder = tmp_path_factory.mktemp("trainings")
    with ThreadPoolExecutor(len(TRAININGS)) as pool:
        yield {t.name: pool.submit(trained, cluster, t, folder) for t in TRAININGS}


@pytest.mark.parametrize("training", TRAININGS, ids=lambda t: t.name)
def test_stock_harness_trains_pauses_and_completes(
    cluster: Cluster, training: Training, all_training: "dict[str, Future[int]]"
) -> None:
    trial_id = all_training[training.name].result()
    trial = cluster.get(f"/api/v1/trials/{trial_id}")["trial"]
    assert (trial["restarts"], trial["totalBatchesProcessed"]) == (0, training.steps)
    assert trial["bestValidation"]["metrics"]["avgMetrics"][training.metric] >= 0
    assert trial["checkpointCount"] >= 1
    runs = cluster.get(f"/api/v1/tasks/{trial['taskId']}")["task"]["allocations"]
    assert len(runs) == 2


def test_checkpoint_has_the_files_of_all_ranks(
    cluster: Cluster, all_training: "dict[str, Future[int]]"
) -> None:
    trial_id = all_training["core"].result()
    checkpoints = cluster.get(f"/api/v1/trials/{trial_id}/checkpoints")["checkpoints"]
    assert checkpoints
    assert all({"rank-0", "rank-1"} <= set(checkpoint["resources"]) for checkpoint in checkpoints)
    steps = [line["log"] for line in cluster.task_logs(trial_id) if "step" in line["log"]]
    assert any("step 6 of [0, 1] by 0.38.1" in line for line in steps)
