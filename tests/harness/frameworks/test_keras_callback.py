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
    with ml.forks(ml.require("tensorflow"), folder, "tensorflow", "keras") as made:
        yield made


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
    found = [(steps, sorted(m), m["epochs"]) for steps, m in trained["validations"]]
    names = ["batches", "epochs", "loss"]
    assert found == [(4, names, 1), (8, names, 2), (12, names, 3)]


def test_a_report_within_an_epoch_tells_the_epoch_that_runs(trained: Any) -> None:
    assert [metrics["epochs"] for _, metrics in trained["training"]] == [1, 1, 2, 2, 3, 3]


def test_every_epoch_is_saved(trained: Any) -> None:
    assert sorted(trained["saved"], key=int) == ["4", "8", "12"]


def test_a_preempted_fit_goes_on_exactly_where_it_stopped(
    forks: ml.Forks, trained: Any, tmp_path: pathlib.Path
) -> None:
    stopped = train(forks, tmp_path, 3, preempt="preempt")
    assert stopped["epochs"] == [0]
    ((_, (uuid, _)),) = stopped["saved"].items()
    resumed = train(forks, tmp_path, 3, uuid)
    assert resumed["epochs"] == [1, 2]
    assert resumed["validations"] == trained["validations"][1:]
    assert resumed["weights"] == trained["weights"]


def test_an_override_saves_files_beside_the_path_and_finds_them_until_the_first_batch(
    forks: ml.Forks, tmp_path: pathlib.Path
) -> None:
    stopped = train(forks, tmp_path, 3, preempt="preempt", OWN_FORMAT="1")
    ((_, (uuid, files)),) = stopped["saved"].items()
    assert "model_checkpoint-mine.weights.h5" in files
    resumed = train(forks, tmp_path, 3, uuid, OWN_FORMAT="1")
    assert resumed["epochs"] == [1, 2]
    assert resumed["weights"] != stopped["weights"]
