"""Every framework as an experiment on a whole cluster: paused in the middle, resumed, and trained to its end."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.support import ml
from tests.support.cluster import Cluster, local_cluster

pytestmark = pytest.mark.slow
CODE = Path(__file__).parent / "frameworks"
STEPS = 40


@dataclass(frozen=True)
class Framework:
    name: str
    environment: str
    entrypoint: str
    metric: str
    slots: int = 1


FRAMEWORKS = [
    Framework("transformers", "ml", "python3 transformers_train.py", "eval_loss"),
    Framework("tensorflow", "tensorflow", "python3 tensorflow_train.py", "val_loss"),
    Framework("lightning", "ml", "lightning_def:Trial", "val_loss"),
    Framework(
        "deepspeed",
        "deepspeed",
        "python3 -m determined.launch.deepspeed --trial deepspeed_def:Trial",
        "val_loss",
        slots=2,
    ),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("frameworks")
    with local_cluster(folder, runtime="process", slots=2) as started:
        yield started


def configuration(framework: Framework) -> str:
    defaults = ml.task_defaults(framework.environment)
    return yaml.safe_dump(
        {
            "name": framework.name,
            "entrypoint": framework.entrypoint,
            "environment": {"environment_variables": defaults["environment_variables"]},
            "resources": {"slots_per_trial": framework.slots},
            "hyperparameters": {"global_batch_size": 2 * framework.slots},
            "searcher": {
                "name": "single",
                "metric": framework.metric,
                "max_length": {"batches": STEPS},
            },
            "scheduling_unit": 2,
            "max_restarts": 0,
        }
    )


def steps(cluster: Cluster, trial_id: int) -> list[int]:
    """The steps that the first rank did, in order."""
    found = []
    for entry in cluster.task_logs(trial_id):
        match = re.search(r"did step (\d+)", entry["log"])
        if match and not entry.get("rankId"):
            found.append(int(match[1]))
    return found


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda f: f.name)
def test_a_paused_trial_goes_on_where_it_stopped(
    cluster: Cluster, framework: Framework, tmp_path: Path
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(configuration(framework))
    experiment_id = cluster.create(path, CODE)
    trial_id = cluster.until(lambda: cluster.trials(experiment_id), "a trial exists")[0]["id"]
    cluster.until(lambda: 2 in steps(cluster, trial_id), "it trains", timeout_s=360)
    cluster.det("experiment", "pause", str(experiment_id))
    cluster.until(
        lambda: not cluster.get("/api/v1/tasks")["allocationIdToSummary"], "its slots are free"
    )
    paused_after = steps(cluster, trial_id)[-1]
    cluster.det("experiment", "activate", str(experiment_id))
    state = cluster.until_state(experiment_id, "COMPLETED", "ERROR", timeout_s=480)
    trial = cluster.trials(experiment_id)[0]
    assert state == "COMPLETED", cluster.logs(trial_id)
    assert paused_after < STEPS
    assert steps(cluster, trial_id) == list(range(1, STEPS + 1))
    assert (trial["restarts"], trial["totalBatchesProcessed"]) == (0, STEPS)
    assert trial["bestValidation"]["metrics"]["avgMetrics"][framework.metric] >= 0
