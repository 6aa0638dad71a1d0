import json
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from determined._info import LOCAL_TEST_CONFIG

from tests.support import ml
from tests.support.fake_api import FakeApi

pytestmark = pytest.mark.slow
SCRIPT = str(pathlib.Path(__file__).parent / "keras_trial_script.py")
LOCATION = "tests.harness.frameworks.keras_class:Trial"
SEARCHER = {"name": "single", "metric": "val_loss", "max_length": {"batches": 3}}


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ml.Forks]:
    folder = tmp_path_factory.mktemp("forks")
    with ml.forks(ml.require("tensorflow"), folder, "tensorflow", "keras") as processes:
        yield processes


@pytest.fixture(scope="module")
def trained(forks: ml.Forks, tmp_path_factory: pytest.TempPathFactory) -> Any:
    home = tmp_path_factory.mktemp("keras")
    output = forks.run([SCRIPT, str(home)], home)
    return {**json.loads(output.strip().splitlines()[-1]), "output": output}


def test_keras_trial_follows_its_plan(trained: Any) -> None:
    assert trained["training"] == [3, 5, 6, 9, 10]
    assert trained["validations"] == [[n, ["batches", "epochs", "val_loss"]] for n in (5, 10)]
    assert trained["saved"] == [10]


def test_keras_does_not_warn_about_shuffling(trained: Any) -> None:
    assert "shuffle" not in trained["output"]


def test_configuration_enables_the_profiler(trained: Any) -> None:
    assert trained["profiled"][0] == "on"


def test_callbacks_get_epochs(trained: Any) -> None:
    assert trained["epochs"] == [0, 1]


def test_resumed_trial_has_the_same_weights(trained: Any) -> None:
    assert trained["same"]


def test_callbacks_resume_their_state(trained: Any) -> None:
    assert trained["counted"] == [10, 10]
    uninterrupted, resumed_state = trained["states"]
    assert uninterrupted == resumed_state
    assert [state["_validations"] for state in uninterrupted] == [2, 2]


def test_callbacks_get_workloads_and_checkpoints(trained: Any) -> None:
    begins = [[at, batches] for kind, at, batches in trained["callback_calls"] if kind == "begin"]
    assert begins == [[0, 3], [3, 2], [5, 1], [6, 3], [9, 1]]
    assert ["end", 10, ["loss"]] in trained["callback_calls"]
    assert trained["note"] == "10"


def test_trial_class_can_be_tested_without_a_cluster(
    forks: ml.Forks, tmp_path: pathlib.Path
) -> None:
    config = {"hyperparameters": {"lr": {"type": "log", "minval": -3, "maxval": -1}}}
    arguments = ["-m", "determined.experimental._one_batch", LOCATION]
    env = {LOCAL_TEST_CONFIG: json.dumps(config)}
    output = forks.run(arguments, tmp_path, **env)
    assert output.count("trained a batch") == 1
    assert len(list((tmp_path / "share").rglob("trial_state.json"))) == 1


def test_trial_class_runs_on_a_cluster(forks: ml.Forks, tmp_path: pathlib.Path) -> None:
    with FakeApi() as api:
        api.on("POST", r"/api/v1/.*", {})
        api.on("GET", r".*/signals/preemption", {"preempt": False})
        api.on("GET", r".*/best_searcher_validation_metric", {})
        storage = {"type": "directory", "container_path": str(tmp_path / "checkpoints")}
        env = {
            "DET_MASTER": api.url,
            "DET_ALLOCATION_ID": "1.a.1",
            "DET_TASK_ID": "1.a",
            "DET_TASK_TYPE": "TRIAL",
            "DET_CLUSTER_ID": "c",
            "DET_TRIAL_ID": "5",
            "DET_EXPERIMENT_ID": "1",
            "DET_TRIAL_SEED": "7",
            "DET_TRIAL_RUN_ID": "1",
            "DET_SESSION_TOKEN": "t",
            "DET_SLOT_IDS": "[0]",
            "DET_HPARAMS": '{"lr": 0.1}',
            "DET_EXPERIMENT_CONFIG": json.dumps(
                {"checkpoint_storage": storage, "searcher": SEARCHER}
            ),
            "DET_RUN_DIR": str(tmp_path / "run"),
        }
        arguments = ["-m", "determined.exec.harness", "--trial", LOCATION]
        output = forks.run(arguments, tmp_path, **env)
        validated = [
            request.body["metrics"]["stepsCompleted"]
            for request in api.sent("POST", "/api/v1/trials/5/metrics")
            if request.body["group"] == "validation"
        ]
    assert output.count("trained a batch") == 3
    assert validated == [3]
