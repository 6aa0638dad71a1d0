"""Trial classes on a cluster, with the real Core API and a fake control plane."""

import json
import pathlib
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from determined.exec import harness

from tests.support.fake_api import FakeApi, RecordedRequest
from tests.support.torch_trials import EPOCH, PlainTrial

TRIAL = "/api/v1/trials/5"


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with FakeApi() as fake:
        fake.on("POST", r"/api/v1/.*", {})
        fake.on("GET", r".*/signals/preemption", {"preempt": False})
        fake.on("GET", r".*/best_searcher_validation_metric", {})
        yield fake


@pytest.fixture
def cluster(api: FakeApi, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Set the environment of a task with the given experiment configuration."""

    def enter(config: dict[str, Any], **env: str) -> FakeApi:
        storage = {"type": "directory", "container_path": str(tmp_path / "checkpoints")}
        variables = {
            "DET_MASTER": api.url,
            "DET_ALLOCATION_ID": "1.a.1",
            "DET_TASK_ID": "1.a",
            "DET_CLUSTER_ID": "c",
            "DET_TRIAL_ID": "5",
            "DET_EXPERIMENT_ID": "1",
            "DET_TRIAL_SEED": "7",
            "DET_TRIAL_RUN_ID": "1",
            "DET_SESSION_TOKEN": "t",
            "DET_SLOT_IDS": "[0]",
            "DET_HPARAMS": '{"global_batch_size": 4}',
            "DET_EXPERIMENT_CONFIG": json.dumps({"checkpoint_storage": storage, **config}),
            "DET_RUN_DIR": str(tmp_path / "run"),
        }
        for name, value in {**variables, **env}.items():
            monkeypatch.setenv(name, value)
        return api

    return enter


def searcher(length: Any) -> dict[str, Any]:
    return {"name": "single", "metric": "val_loss", "smaller_is_better": True, "max_length": length}


def reports(api: FakeApi, group: str) -> list[int]:
    bodies = [a.body for a in api.sent("POST", f"{TRIAL}/metrics")]
    return [body["metrics"]["stepsCompleted"] for body in bodies if body["group"] == group]


def checkpoints(api: FakeApi) -> list[int]:
    return [a.body["metadata"]["steps_completed"] for a in api.saved()]


def test_lengths_and_periods_come_from_the_configuration(cluster: Any) -> None:
    periods = {"scheduling_unit": 4, "min_validation_period": {"epochs": 1}}
    api = cluster({"searcher": searcher({"epochs": 2}), "checkpoint_policy": "none", **periods})
    assert harness.run_trial_class(PlainTrial) == 0
    assert reports(api, "training") == [4, 6, 8, 12]
    assert reports(api, "validation") == [EPOCH, 2 * EPOCH]
    assert checkpoints(api) == [2 * EPOCH]


def test_lengths_in_records_are_divided_by_the_global_batch_size(cluster: Any) -> None:
    api = cluster({"searcher": searcher({"records": 20})})
    harness.run_trial_class(PlainTrial)
    assert reports(api, "training") == [5]


def test_max_time_of_a_searcher_is_the_maximum_length(cluster: Any) -> None:
    asha = {"name": "adaptive_asha", "metric": "val_loss", "time_metric": "batches", "max_time": 7}
    api = cluster({"searcher": asha})
    harness.run_trial_class(PlainTrial)
    assert reports(api, "training") == [7]


def test_workloads_come_from_the_control_plane(cluster: Any) -> None:
    """A trial requests one workload after another. The control plane chooses each from the earlier results."""
    api = cluster({"searcher": searcher({"batches": 100})})
    workloads = [("RUN_STEP", 3), ("COMPUTE_VALIDATION_METRICS", 0), ("RUN_STEP", 2)]
    workloads += [("CHECKPOINT_MODEL", 0), ("TERMINATE", 0)]
    requests: list[str] = []

    def next_workload(request: RecordedRequest) -> Any:
        requests.append(request.first("stepsCompleted"))
        kind, batches = workloads[len(requests) - 1]
        return {"workload": {"kind": kind, "numBatches": batches, "totalBatchesProcessed": 0}}

    api.on("GET", f"{TRIAL}/workload", next_workload)
    harness.run_trial_class(PlainTrial)
    assert requests == ["0", "3", "3", "5", "5"]
    assert (reports(api, "training"), reports(api, "validation")) == ([3, 5], [3])
    assert checkpoints(api) == [5]


class Announcing(PlainTrial):
    """A trial that announces its first batch."""

    begun = threading.Event()

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
        self.begun.set()
        return super().train_batch(batch, epoch_idx, batch_idx)


def preempt_when_training(request: RecordedRequest) -> dict[str, bool]:
    """Answer the first preemption request at once, and the next one when the trial trains."""
    waits = request.first("timeoutSeconds") != "0"
    return {"preempt": waits and Announcing.begun.wait(60)}


def test_preempted_trial_saves_acknowledges_and_resumes(cluster: Any) -> None:
    """The trial stops within its reporting period, and resumes there."""
    endless = 10_000_000
    api = cluster({"searcher": searcher({"batches": endless}), "scheduling_unit": endless})
    api.on("GET", r".*/signals/preemption", preempt_when_training)
    harness.run_trial_class(Announcing)
    (stopped_at,) = checkpoints(api)
    assert len(api.sent("POST", ".*/signals/ack_preemption")) == 1
    (checkpoint,) = (a.body["uuid"] for a in api.saved())
    api.on("GET", r".*/signals/preemption", {"preempt": False})
    longer = {"searcher": searcher({"batches": stopped_at + 5}), "scheduling_unit": endless}
    cluster(longer, DET_LATEST_CHECKPOINT=checkpoint)
    harness.run_trial_class(PlainTrial)
    assert reports(api, "training") == [stopped_at, stopped_at + 5]


def test_error_for_configuration_without_length_names_the_setting(cluster: Any) -> None:
    cluster({"searcher": {"name": "single", "metric": "val_loss"}})
    with pytest.raises(ValueError, match=r"searcher\.max_length"):
        harness.run_trial_class(PlainTrial)


def test_rejects_class_that_is_not_a_trial(cluster: Any) -> None:
    cluster({})
    with pytest.raises(ValueError, match="derive from PyTorchTrial"):
        harness.run_trial_class(dict)
