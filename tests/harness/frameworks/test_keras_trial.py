import json
import pathlib
from typing import Any

import pytest

from tests.support import ml

pytestmark = pytest.mark.slow
SCRIPT = str(pathlib.Path(__file__).parent / "keras_trial_script.py")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Any:
    home = tmp_path_factory.mktemp("keras")
    output = ml.run("tensorflow", [SCRIPT, str(home)], home, PYTHONPATH=str(ml.ROOT))
    return json.loads(output.strip().splitlines()[-1])


def test_a_keras_trial_follows_its_plan(trained: Any) -> None:
    assert trained["training"] == [3, 5, 6, 9, 10]
    assert trained["validations"] == [[n, ["batches", "epochs", "val_loss"]] for n in (5, 10)]
    assert trained["saved"] == [10]


def test_its_callbacks_see_epochs(trained: Any) -> None:
    assert trained["epochs"] == [0, 1]


def test_it_resumes_to_the_same_weights(trained: Any) -> None:
    assert trained["same"]
