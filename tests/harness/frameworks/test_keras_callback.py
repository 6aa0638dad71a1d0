import json
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support import ml

pytestmark = pytest.mark.slow
SCRIPT = str(pathlib.Path(__file__).parent / "keras_script.py")


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ml.Forks]:
    folder = tmp_path_factory.mktemp("forks")
    with ml.forks(ml.require("tensorflow"), folder, "tensorflow", "keras") as processes:
        yield processes


def train(
    forks: ml.Forks,
    home: pathlib.Path,
    epochs: int,
    checkpoint: str = "none",
    preempt: str = "no",
    **env: str,
) -> Any:
    output = forks.run([SCRIPT, str(home), str(epochs), checkpoint, preempt], home, **env)
    return json.loads(output.strip().splitlines()[-1])


@pytest.fixture(scope="module")
def trained(forks: ml.Forks, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return train(forks, tmp_path_factory.mktemp("uninterrupted"), 3)


def test_training_and_validation_are_reported(trained: Any) -> None:
    assert [steps for steps, _ in trained["training"]] == [2, 4, 6, 8, 10, 12]
    reports = [(steps, sorted(m), m["epochs"]) for steps, m in trained["validations"]]
    names = ["batches", "epochs", "loss"]
    assert reports == [(4, names, 1), (8, names, 2), (12, names, 3)]


def test_report_within_an_epoch_has_the_current_epoch(trained: Any) -> None:
    assert [metrics["epochs"] for _, metrics in trained["training"]] == [1, 1, 2, 2, 3, 3]


def test_every_epoch_is_saved(trained: Any) -> None:
    assert sorted(trained["saved"], key=int) == ["4", "8", "12"]


def test_preempted_fit_resumes_exactly(
    forks: ml.Forks, trained: Any, tmp_path: pathlib.Path
) -> None:
    result = train(forks, tmp_path, 3, preempt="preempt")
    assert result["epochs"] == [0]
    ((_, (uuid, _)),) = result["saved"].items()
    losses = train(forks, tmp_path, 3, uuid)
    assert losses["epochs"] == [1, 2]
    assert losses["validations"] == trained["validations"][1:]
    assert losses["weights"] == trained["weights"]


def test_override_finds_its_files_until_the_first_batch(
    forks: ml.Forks, tmp_path: pathlib.Path
) -> None:
    result = train(forks, tmp_path, 3, preempt="preempt", OWN_FORMAT="1")
    ((_, (uuid, files)),) = result["saved"].items()
    assert "model_checkpoint-mine.weights.h5" in files
    losses = train(forks, tmp_path, 3, uuid, OWN_FORMAT="1")
    assert losses["epochs"] == [1, 2]
    assert losses["weights"] != result["weights"]
