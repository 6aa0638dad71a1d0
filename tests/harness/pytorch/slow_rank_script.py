"""Train on every rank, started with torchrun's variables, with one slow rank. Write the chief's findings to a file."""

import json
import logging
import sys
import time
from typing import Any

import torch
from determined import pytorch
from determined.core._stragglers import Straggler, StragglerDetector
from torch import nn

OUTPUT, SLOW_RANK, PART = sys.argv[1], int(sys.argv[2]), sys.argv[3]
STEP_S, SLOW_FROM, LENGTH = 0.02, 50, 180


class Slow(pytorch.PyTorchTrial):
    """A trial with buffers, for which fast ranks wait at the begin of the forward pass, too."""

    def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
        super().__init__(context)
        self.is_slow = context.distributed.rank == SLOW_RANK
        net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))
        self.model = context.wrap_model(net)
        sgd = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.optimizer = context.wrap_optimizer(sgd)
        self.loaded = 0

    def build_training_data_loader(self) -> pytorch.DataLoader:
        return pytorch.DataLoader(Numbers(self), batch_size=2)

    def build_validation_data_loader(self) -> pytorch.DataLoader:
        return pytorch.DataLoader(Numbers(self), batch_size=2)

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
        is_slow = PART == "compute" and self.is_slow and batch_idx >= SLOW_FROM
        time.sleep(STEP_S * (1.3 if is_slow else 1))
        loss = self.model(batch).square().mean()
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss}

    def evaluate_batch(self, batch: Any, batch_idx: int) -> Any:
        return {"loss": 0.0}


class Numbers(torch.utils.data.Dataset):  # type: ignore[misc]
    def __init__(self, trial: Slow) -> None:
        self.trial = trial

    def __len__(self) -> int:
        return 10_000

    def __getitem__(self, index: int) -> torch.Tensor:
        self.trial.loaded += 1
        if PART == "data" and self.trial.is_slow and self.trial.loaded > 2 * SLOW_FROM:
            time.sleep(0.3 * STEP_S / 2)
        return torch.ones(4)


torch.set_num_threads(1)
logging.disable(logging.INFO)
with pytorch.init(exp_conf={}, enable_tensorboard_logging=False) as context:
    found: list[list[Any]] = []

    def note(straggler: Straggler, agent: str, steps: int) -> None:
        found.append([straggler.rank, straggler.cause, steps, straggler.slowdown])

    step_times = context._core.train._step_times
    step_times._report = note
    step_times._detector = StragglerDetector(least_slow_s=0.0)  # the training takes four seconds
    pytorch.Trainer(Slow(context), context).fit(
        max_length=pytorch.Batch(LENGTH),
        reporting_period=pytorch.Batch(LENGTH),
        checkpoint_policy="none",
    )
    if context.distributed.rank == 0:
        with open(OUTPUT, "w") as f:
            json.dump(found, f)
