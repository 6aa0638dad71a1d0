import json
import pathlib
from typing import Any

import pytest

from tests.support import ml

pytestmark = pytest.mark.slow
SCRIPT = str(pathlib.Path(__file__).parent / "lightning_script.py")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Any:
    home = tmp_path_factory.mktemp("lightning")
    output = ml.run("ml", [SCRIPT, str(home)], home, PYTHONPATH=str(ml.ROOT))
    return json.loads(output.strip().splitlines()[-1])


def test_lightning_module_trains_as_a_trial(trained: Any) -> None:
    assert trained["losses"][-1] < trained["losses"][0]
    assert trained["twice"] == pytest.approx([2 * loss for loss in trained["losses"]])
    assert trained["val"] > 0


def test_hooks_and_schedulers_run_for_each_epoch(trained: Any) -> None:
    assert len(trained["epochs_ended"]) == 2
    assert trained["lr"] == pytest.approx(0.1 * 0.5**2)


def test_module_gets_progress_as_in_lightning(trained: Any) -> None:
    assert trained["step_positions"][:7] == [[0, n] for n in range(6)] + [[1, 6]]
    assert [trained["epochs_ended"], trained["step_positions"]] == trained["by_lightning"]


def test_logger_reports_in_groups(trained: Any) -> None:
    assert ["training", 1, ["batches", "epochs", "twice"]] in trained["groups"]
    assert ["validation", 6, ["batches", "epochs", "val_loss"]] in trained["groups"]


def test_logger_stores_checkpoints_and_closes(trained: Any) -> None:
    assert trained["checkpoints"] == [6, 12] or trained["checkpoints"] == [12]
    assert "closed" in trained["closed"]
