"""Tests of a trial class without a cluster."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from determined import _example_hparams
from determined._info import LOCAL_TEST_CONFIG

CODE = """
import torch
from determined import pytorch

class Trial(pytorch.PyTorchTrial):
    def __init__(self, context):
        super().__init__(context)
        self.model = context.wrap_model(torch.nn.Linear(1, 1))
        self.optimizer = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=context.get_hparam("lr")))

    def loader(self):
        data = torch.utils.data.TensorDataset(torch.ones(8, 1), torch.ones(8, 1))
        return pytorch.DataLoader(data, batch_size=4)

    build_training_data_loader = build_validation_data_loader = loader

    def train_batch(self, batch, epoch_idx, batch_idx):
        print("trained a batch")
        x, y = batch
        loss = ((self.model(x) - y) ** 2).mean()
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss}

    def evaluate_batch(self, batch):
        print("validated a batch")
        return {"loss": 1.0}
"""


def run(folder: Path, code: str) -> "subprocess.CompletedProcess[str]":
    (folder / "model_def.py").write_text(code)
    space = {"lr": {"type": "log", "base": 10, "minval": -3, "maxval": -1}}
    config = {"hyperparameters": space, "searcher": {"name": "single", "metric": "loss"}}
    root = Path(__file__).parents[3]
    env = {**os.environ, "XDG_DATA_HOME": str(folder / "data"), "PYTHONPATH": str(root / "harness")}
    env[LOCAL_TEST_CONFIG] = json.dumps(config)
    command = [sys.executable, "-m", "determined.experimental._one_batch", "model_def:Trial"]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


def test_trial_class_trains_validates_and_saves_once(tmp_path: Path) -> None:
    result = run(tmp_path, CODE)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("trained a batch") == 1
    assert result.stdout.count("validated a batch") == 1
    assert len(list((tmp_path / "data").rglob("state_dict.pth"))) == 1


def test_error_of_the_model_fails_the_test(tmp_path: Path) -> None:
    result = run(tmp_path, CODE.replace('print("trained a batch")', 'raise ValueError("no")'))
    assert result.returncode != 0
    assert "ValueError: no" in result.stderr


def test_hyperparameters_get_a_value_inside_their_range() -> None:
    space = {
        "a": 5,
        "b": {"type": "int", "minval": 2, "maxval": 9},
        "c": {"type": "double", "minval": 1, "maxval": 2},
        "d": {"type": "log", "base": 10, "minval": -3, "maxval": -1},
        "e": {"type": "categorical", "vals": ["x", "y"]},
        "f": {"inner": {"type": "const", "val": True}},
    }
    assert _example_hparams.example(space) == {
        "a": 5, "b": 2, "c": 1.5, "d": 0.01, "e": "x", "f": {"inner": True},
    }  # fmt: skip


def test_error_names_unknown_type_of_hyperparameter() -> None:
    with pytest.raises(ValueError, match="'wild' is not known"):
        _example_hparams.example({"a": {"type": "wild"}})
