import json
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support import ml

pytestmark = pytest.mark.slow
SCRIPT = str(pathlib.Path(__file__).parent / "transformers_script.py")


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ml.Forks]:
    folder = tmp_path_factory.mktemp("forks")
    with ml.forks(ml.require("ml"), folder, "transformers.trainer") as processes:
        yield processes


def train(
    forks: ml.Forks, home: pathlib.Path, preempt_after: int = -1, *latest: str, **env: str
) -> Any:
    output = forks.run([SCRIPT, str(home), str(preempt_after), *latest], home, **env)
    return json.loads(output.strip().splitlines()[-1])


def losses(result: Any) -> list[float]:
    return [metrics["loss"] for _, metrics in result["training"] if "loss" in metrics]


@pytest.fixture(scope="module")
def trained(forks: ml.Forks, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return train(forks, tmp_path_factory.mktemp("uninterrupted"))


def test_logs_of_the_trainer_are_reported(trained: Any) -> None:
    assert [steps for steps, m in trained["training"] if "loss" in m] == [1, 2, 3, 4, 5, 6]
    assert [(s, "eval_loss" in m, m["batches"]) for s, m in trained["validations"]] == [
        (3, True, 3),
        (6, True, 6),
    ]


def test_saves_of_the_trainer_are_checkpoints_with_user_data(trained: Any) -> None:
    ((steps, (_, files)),) = trained["saved"].items()
    assert steps == "6"
    folder = "checkpoint-6"
    expected_files = {f"{folder}/trainer_state.json", f"{folder}/my_data.json", "metadata.json"}
    assert expected_files <= set(files)


def test_preempted_trainer_saves_and_resumes(
    forks: ml.Forks, trained: Any, tmp_path: pathlib.Path
) -> None:
    result = train(forks, tmp_path, 0)
    ((steps, (uuid, _)),) = result["saved"].items()
    assert int(steps) < 6
    resumed_losses = train(forks, tmp_path, -1, uuid)
    assert (trained["resume_path"], resumed_losses["resume_path"]) == (
        None,
        f"{tmp_path}/out/checkpoint-{steps}",
    )
    assert losses(result) + losses(resumed_losses) == losses(trained)


def test_trainer_stopped_by_searcher_saves_after_the_evaluation(
    forks: ml.Forks, tmp_path: pathlib.Path
) -> None:
    result = train(forks, tmp_path, GIVEN_UP="1", SEARCHER='{"name": "adaptive_asha"}')
    assert [steps for steps, _ in result["validations"]] == [3]
    assert list(result["saved"]) == ["3"]


def test_speed_figures_and_summary_are_not_reported(trained: Any) -> None:
    names = {name for _, metrics in trained["validations"] for name in metrics}
    assert names == {"eval_loss", "batches", "epochs"}
    names = {name for _, metrics in trained["training"] for name in metrics}
    assert names == {"loss", "grad_norm", "learning_rate", "batches", "epochs"}


@pytest.mark.parametrize(
    ("arguments", "evaluated", "saved"),
    [
        ({"eval_strategy": "no", "save_strategy": "no"}, [6], ["6"]),
        ({"eval_steps": 4, "save_steps": 4}, [4, 6], ["4", "6"]),
        ({"eval_strategy": "epoch", "save_strategy": "epoch", "max_steps": -1,
          "num_train_epochs": 2}, [5, 10], ["5", "10"]),
    ],
    ids=["never", "now and then", "each epoch"],
)  # fmt: skip
def test_training_ends_with_one_evaluation_and_one_checkpoint(
    forks: ml.Forks,
    tmp_path: pathlib.Path,
    arguments: dict[str, Any],
    evaluated: list[int],
    saved: list[str],
) -> None:
    result = train(forks, tmp_path, ARGUMENTS=json.dumps(arguments))
    assert [steps for steps, _ in result["validations"]] == evaluated
    assert sorted(result["saved"], key=int) == saved
    assert len(list((tmp_path / "checkpoints").iterdir())) == len(saved)


def test_preempted_trainer_saves_once_and_does_not_evaluate(
    forks: ml.Forks, tmp_path: pathlib.Path
) -> None:
    arguments = {"eval_strategy": "epoch", "save_strategy": "epoch"}
    result = train(forks, tmp_path, 0, ARGUMENTS=json.dumps(arguments))
    assert result["validations"] == []
    assert len(list((tmp_path / "checkpoints").iterdir())) == 1


def test_resumes_checkpoint_of_an_earlier_version(
    forks: ml.Forks, trained: Any, tmp_path: pathlib.Path
) -> None:
    """Earlier versions stored the Trainer's files in the root of the checkpoint."""
    result = train(forks, tmp_path, 0)
    ((steps, (uuid, _)),) = result["saved"].items()
    checkpoint = tmp_path / "checkpoints" / uuid
    folder = checkpoint / f"checkpoint-{steps}"
    for file in folder.iterdir():
        file.rename(checkpoint / file.name)
    folder.rmdir()
    (tmp_path / "out").rename(tmp_path / "out of another machine")
    resumed_losses = train(forks, tmp_path, -1, uuid)
    assert losses(result) + losses(resumed_losses) == losses(trained)


def test_resumes_on_a_machine_without_files(
    forks: ml.Forks, trained: Any, tmp_path: pathlib.Path
) -> None:
    result = train(forks, tmp_path, 0)
    ((_, (uuid, _)),) = result["saved"].items()
    (tmp_path / "out").rename(tmp_path / "out of another machine")
    resumed_losses = train(forks, tmp_path, -1, uuid)
    assert losses(result) + losses(resumed_losses) == losses(trained)


@pytest.mark.parametrize(
    ("searcher", "message"),
    [
        ({"metric": "accuracy"}, "searcher metric 'accuracy' .* which reports: eval_loss"),
        ({"max_length": {"batches": 8}}, "does not match .*batches=6 != batches=8"),
        ({"max_length": {"epochs": 6}}, "does not match .*batches=6 != epochs=6"),
        ({"max_length": 8}, "does not match .*batches=6 != 8"),
        ({"name": "adaptive_asha", "time_metric": "batches", "max_time": 9},
         "does not match .*batches=6 != batches=9"),
    ],
)  # fmt: skip
def test_rejects_searcher_length_that_differs_from_the_trainer(
    forks: ml.Forks, tmp_path: pathlib.Path, searcher: dict[str, Any], message: str
) -> None:
    with pytest.raises(AssertionError, match=f"(?s)ValueError: .*{message}"):
        train(forks, tmp_path, SEARCHER=json.dumps(searcher))
