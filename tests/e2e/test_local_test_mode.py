"""`det experiment create --local --test-mode`: a trial class tried on this machine before it costs a cluster."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.support import ml
from tests.support.cluster import DET

EXAMPLE = ml.ROOT / "examples/pytorch_mnist_like"


def det(home: Path, *arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    env = ml.environment(home) | {"DET_PYTHON_EXECUTABLE": ml.require("ml")}
    # No server listens there, so requests to a cluster would fail.
    env |= {"DET_MASTER": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1", "NO_COLOR": "1"}
    env["PYTHONPATH"] = os.environ.get("PYTHONPATH", "")
    command = [*DET, "experiment", "create", *map(str, arguments), "--local", "--test-mode"]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=240)


@pytest.mark.parametrize("config", ["const.yaml", "distributed.yaml"])
def test_example_passes_without_a_cluster(tmp_path: Path, config: str) -> None:
    result = det(tmp_path, EXAMPLE / config, EXAMPLE)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "The test passed: the model trains, validates and saves" in result.stderr
    assert not list(EXAMPLE.glob("**/state_dict*"))


def test_invalid_trial_class_fails_without_a_cluster(tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "model_def.py").write_text(
        (EXAMPLE / "model_def.py").read_text().replace("def evaluate_batch", "def evaluate_nothing")
    )
    result = det(tmp_path, EXAMPLE / "const.yaml", code)
    assert result.returncode == 1
    assert "evaluate_batch" in result.stderr
    assert "The test failed" in result.stderr
