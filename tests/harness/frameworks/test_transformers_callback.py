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
    with ml.forks(ml.require("ml"), folder, "transformers.trainer") as made:
        yield made


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


def test_what_the_trainer_logs_is_reported(trained: Any) -> None:
    assert [steps for steps, m in trained["training"] if "loss" in m] == [1, 2, 3, 4, 5, 6]
    assert [(s, "eval_loss" in m, m["batches"]) for s, m in trained["validations"]] == [
        (3, True, 3),
        (6, True, 6),
    ]


def test_what_the_trainer_saves_is_a_checkpoint_with_the_users_data(trained: Any) -> None:
    ((steps, (_, files)),) = trained["saved"].items()
    assert steps == "6"
    assert {"trainer_state.json", "my_data.json", "metadata.json"} <= set(files)


def test_a_preempted_trainer_saves_and_goes_on_from_there(
    forks: ml.Forks, trained: Any, tmp_path: pathlib.Path
) -> None:
    stopped = train(forks, tmp_path, 0)
    ((steps, (uuid, _)),) = stopped["saved"].items()
    assert int(steps) < 6
    resumed = train(forks, tmp_path, -1, uuid)
    assert (trained["found"], resumed["found"]) == (None, f"{tmp_path}/out/checkpoint-{steps}")
    assert losses(stopped) + losses(resumed) == losses(trained)


def test_a_trainer_that_its_searcher_gave_up_saves_where_the_evaluation_ends(
    forks: ml.Forks, tmp_path: pathlib.Path
) -> None:
    stopped = train(forks, tmp_path, GIVEN_UP="1")
    assert [steps for steps, _ in stopped["validations"]] == [3]
    assert list(stopped["saved"]) == ["3"]
