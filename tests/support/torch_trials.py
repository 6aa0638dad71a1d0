"""Trials that tests train. They draw random numbers on purpose: resuming must reproduce these too."""

import random
from typing import Any

import numpy
import torch
from determined import pytorch
from determined.pytorch._backends import Backend
from determined.pytorch._context import PyTorchTrialContext
from determined.pytorch._trial_context import TrialSettings
from torch import nn

from tests.support.fake_core import FakeCore

RECORDS = 22
BATCH = 4
EPOCH = 6


class Numbers(torch.utils.data.Dataset):  # type: ignore[misc]
    """Records that contain their index."""

    def __init__(self, records: int = RECORDS) -> None:
        self.records = records

    def __len__(self) -> int:
        return self.records

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.tensor([float(index) / self.records, 1.0])
        return x, 2 * x[:1] - 1


class NoisyTrial(pytorch.PyTorchTrial):
    """Dropout, momentum, a scheduler and random numbers of every kind in the loss."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        super().__init__(context)
        net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Dropout(0.5), nn.Linear(16, 1))
        self.model = context.wrap_model(net)
        adam = torch.optim.Adam(self.model.parameters(), lr=0.01)
        self.optimizer = context.wrap_optimizer(adam)
        schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, 5, gamma=0.9)
        mode = pytorch.LRScheduler.StepMode.STEP_EVERY_BATCH
        self.scheduler = context.wrap_lr_scheduler(schedule, mode)
        self.seen: list[list[int]] = []

    def build_training_data_loader(self) -> pytorch.DataLoader:
        return pytorch.DataLoader(Numbers(), batch_size=BATCH, shuffle=True)

    def build_validation_data_loader(self) -> pytorch.DataLoader:
        return pytorch.DataLoader(Numbers(), batch_size=BATCH)

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
        x, y = batch
        self.seen.append(records_of(x))
        noise = random.random() + float(numpy.random.rand()) + float(torch.rand(()))
        loss = nn.functional.mse_loss(self.model(x + 0.01 * noise), y)
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss}

    def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        x, y = batch
        return {"val_loss": nn.functional.mse_loss(self.model(x), y)}


class PlainTrial(pytorch.PyTorchTrial):
    """One weight under plain gradient descent, without randomness."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        super().__init__(context)
        weight = nn.Linear(2, 1, bias=False)
        nn.init.constant_(weight.weight, 0.5)
        self.model = context.wrap_model(weight)
        sgd = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.optimizer = context.wrap_optimizer(sgd)
        self.clip: Any = None

    def build_training_data_loader(self) -> Any:
        return pytorch.DataLoader(Numbers(), batch_size=BATCH)

    def build_validation_data_loader(self) -> Any:
        return pytorch.DataLoader(Numbers(), batch_size=BATCH)

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
        x, y = batch
        loss = nn.functional.mse_loss(self.model(x), y)
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer, clip_grads=self.clip)
        return {"loss": loss}

    def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        x, y = batch
        return {"val_loss": nn.functional.mse_loss(self.model(x), y)}


def records_of(x: torch.Tensor) -> list[int]:
    """Return the indices of the records in a batch of Numbers."""
    return [round(float(v) * RECORDS) for v in x[:, 0]]


def make_context(core: FakeCore, **settings: Any) -> PyTorchTrialContext:
    """Make a context as `pytorch.init()` makes it, on a fake Core context."""
    from determined.pytorch import _rng

    chosen_settings = {
        "trial_seed": 7,
        "hparams": {},
        "exp_conf": {},
        "enable_tensorboard_logging": False,
    }
    trial_settings = TrialSettings(**{**chosen_settings, **settings})
    _rng.seed_everything(trial_settings.trial_seed)
    return PyTorchTrialContext(core, trial_settings, torch.device("cpu"), Backend())


def fit(
    core: FakeCore, trial_class: Any = PlainTrial, settings: Any = None, **arguments: Any
) -> Any:
    """Construct a trial and train it."""
    context = make_context(core, **(settings or {}))
    trial = trial_class(context)
    pytorch.Trainer(trial, context).fit(**arguments)
    return trial
