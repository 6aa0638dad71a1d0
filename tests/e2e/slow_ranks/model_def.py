"""A trial with a rank that becomes slow, and a rank that stops before an exchange of gradients, in the first run."""

import os
import time
from typing import Any

import torch
from determined import pytorch
from torch import nn

STEP_S = 0.02
SLOW_FROM = 50


class SlowRank(pytorch.PyTorchTrial):
    def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
        super().__init__(context)
        torch.set_num_threads(1)
        self.slowdown = float(context.get_hparam("slowdown"))
        first_run = os.environ["DET_TRIAL_RUN_ID"] == "1"
        self.hang_at = int(context.get_hparam("hang_at")) if first_run else -1
        self.model = context.wrap_model(nn.Linear(2, 1))
        sgd = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.optimizer = context.wrap_optimizer(sgd)

    def build_training_data_loader(self) -> pytorch.DataLoader:
        data = torch.utils.data.TensorDataset(torch.ones(64, 2), torch.ones(64, 1))
        return pytorch.DataLoader(data, batch_size=self.context.get_per_slot_batch_size())

    def build_validation_data_loader(self) -> pytorch.DataLoader:
        data = torch.utils.data.TensorDataset(torch.ones(8, 2), torch.ones(8, 1))
        return pytorch.DataLoader(data, batch_size=4)

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        is_last = self.context.distributed.rank == self.context.distributed.size - 1
        time.sleep(STEP_S * (1 + self.slowdown * (is_last and batch_idx >= SLOW_FROM)))
        if is_last and batch_idx == self.hang_at:
            wait_for_an_event_that_never_comes()
        x, y = batch
        loss = nn.functional.mse_loss(self.model(x), y)
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss}

    def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        return {"validation_loss": 0.0}


def wait_for_an_event_that_never_comes() -> None:
    time.sleep(3600)
