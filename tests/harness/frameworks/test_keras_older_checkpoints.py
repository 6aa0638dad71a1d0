import json
import pathlib

import pytest

from tests.support import ml

pytestmark = pytest.mark.slow
SCRIPT = str(pathlib.Path(__file__).parent / "keras_older_script.py")


def test_loads_models_of_determineds_own_checkpoints(tmp_path: pathlib.Path) -> None:
    output = ml.run("tensorflow", [SCRIPT, str(tmp_path)], tmp_path)
    assert json.loads(output.strip().splitlines()[-1]) == {"saved_weights": True, "h5": True}
