"""Checkpoints of Determined 0.12 to 0.17."""

import json
import pathlib
import random
from typing import Any

import numpy
import pytest
import torch
from determined import pytorch
from determined.pytorch import UntrustedCheckpointError
from torch import nn

CODE = """
import torch
from determined import pytorch

class MyTrial(pytorch.PyTorchTrial):
    def __init__(self, context):
        self.context = context
        self.model = context.wrap_model(torch.nn.Linear(2, 1))
        sgd = torch.optim.SGD(self.model.parameters(), context.get_hparam("lr"))
        self.optimizer = context.wrap_optimizer(sgd)
        self.schedule = context.wrap_lr_scheduler(
            torch.optim.lr_scheduler.StepLR(sgd, 1), pytorch.LRScheduler.StepMode.MANUAL_STEP
        )

    def build_training_data_loader(self):
        return pytorch.DataLoader([1], batch_size=1)

    build_validation_data_loader = build_training_data_loader

    def train_batch(self, batch, epoch_idx, batch_idx):
        return {}
"""


def state(singular: bool) -> dict[str, Any]:
    model = nn.Linear(2, 1)
    nn.init.constant_(model.weight, 0.25)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    parts = [model.state_dict(), optimizer.state_dict(), {**schedule.state_dict(), "last_epoch": 5}]
    if singular:
        names = ["model_state_dict", "optimizer_state_dict", "lr_scheduler"]
        return {**dict(zip(names, parts, strict=True)), "callbacks": {}}
    names = ["models_state_dict", "optimizers_state_dict", "lr_schedulers_state_dict"]
    generators = {
        "cpu_rng_state": torch.random.get_rng_state(),
        "np_rng_state": numpy.random.get_state(),
        "random_rng_state": random.getstate(),
    }
    lists = {name: [part] for name, part in zip(names, parts, strict=True)}
    return {**lists, "callbacks": {}, "rng_state": generators}


def write(folder: pathlib.Path, content: Any, archive: bool = True, **changes: Any) -> str:
    (folder / "code").mkdir()
    (folder / "code" / "model_def.py").write_text(CODE)
    torch.save(content, folder / "state_dict.pth", _use_new_zipfile_serialization=archive)
    config = {"entrypoint": "model_def:MyTrial", "hyperparameters": {"lr": 0.1}, **changes}
    metadata = {"framework": "torch-1.7.1", "experiment_config": config, "hparams": {"lr": 0.1}}
    (folder / "metadata.json").write_text(json.dumps(metadata))
    return str(folder)


@pytest.mark.parametrize("archive", [True, False])
@pytest.mark.parametrize("singular", [True, False])
def test_loads_trial_of_an_older_version_without_trust(
    tmp_path: pathlib.Path, singular: bool, archive: bool
) -> None:
    path = write(tmp_path, state(singular), archive)
    trial: Any = pytorch.load_trial_from_checkpoint_path(path)
    assert trial.model.weight.tolist() == [[0.25, 0.25]]
    assert trial.schedule.last_epoch == 5
    assert trial.context.get_hparams() == {"lr": 0.1}


FIRST_CODE = """
import torch
from determined import pytorch

class MyTrial(pytorch.PyTorchTrial):
    def __init__(self, context):
        self.context = context

    def build_model(self):
        return torch.nn.Linear(2, 1)

    def optimizer(self, model):
        return torch.optim.SGD(model.parameters(), self.context.get_hparam("lr"))

    def create_lr_scheduler(self, optimizer):
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        return pytorch.LRScheduler(schedule, pytorch.LRScheduler.StepMode.STEP_EVERY_EPOCH)

    def train_batch(self, batch, model, epoch_idx, batch_idx):
        return {}
"""


def test_loads_trial_of_the_first_interface(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path, state(singular=True))
    (tmp_path / "code" / "model_def.py").write_text(FIRST_CODE)
    trial: Any = pytorch.load_trial_from_checkpoint_path(path)
    assert trial.model.weight.tolist() == [[0.25, 0.25]]
    assert trial.context.lr_schedulers[0].state_dict()["last_epoch"] == 5


class Exploding:
    ran = False

    def __reduce__(self) -> Any:
        return _run, ()


def _run() -> str:
    Exploding.ran = True
    return "ran"


@pytest.mark.parametrize("archive", [True, False])
def test_foreign_pickles_do_not_run_without_trust(tmp_path: pathlib.Path, archive: bool) -> None:
    path = write(tmp_path, {**state(False), "callbacks": {"c": Exploding()}}, archive)
    with pytest.raises(UntrustedCheckpointError, match="_run"):
        pytorch.load_trial_from_checkpoint_path(path)
    assert not Exploding.ran


def test_error_explains_entrypoint_without_a_class(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path, state(False), entrypoint="python3 train.py")
    with pytest.raises(ValueError, match=r"python3 train\.py.*trial_class"):
        pytorch.load_trial_from_checkpoint_path(path)
