"""A trial that its searcher stops ends with the validation that decided it, and with a checkpoint of that."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.support import ml
from tests.support.cluster import Cluster, local_cluster

pytestmark = pytest.mark.slow
CODE = Path(__file__).parent / "frameworks"
MAX_TIME = 8


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with local_cluster(tmp_path, runtime="process", slots=1) as running_cluster:
        yield running_cluster


def configuration() -> str:
    return yaml.safe_dump(
        {
            "name": "stopped",
            "entrypoint": "python3 searched_train.py",
            "environment": {
                "environment_variables": ml.task_defaults("ml")["environment_variables"]
            },
            "searcher": {
                "name": "async_halving",
                "metric": "val_loss",
                "time_metric": "batches",
                "max_time": MAX_TIME,
                "num_rungs": 1,
                "max_trials": 1,
                "max_concurrent_trials": 1,
            },
            "max_restarts": 0,
        }
    )


def test_last_checkpoint_has_the_metrics_of_the_searchers_decision(
    cluster: Cluster, tmp_path: Path
) -> None:
    path = tmp_path / "stopped.yaml"
    path.write_text(configuration())
    experiment_id = cluster.create(path, CODE)
    assert cluster.until_state(experiment_id, "COMPLETED", "ERROR", timeout_s=300) == "COMPLETED"
    (trial,) = cluster.trials(experiment_id)
    assert trial["totalBatchesProcessed"] == MAX_TIME
    checkpoints = cluster.get(f"/api/v1/experiments/{experiment_id}/checkpoints")["checkpoints"]
    (checkpoint,) = [c for c in checkpoints if c["metadata"]["steps_completed"] == MAX_TIME]
    assert "val_loss" in checkpoint["training"]["validationMetrics"]["avgMetrics"]
