"""A trial with losses that depend on all earlier random numbers and weights, so that a wrong resume changes them."""

import hashlib
import os
import random
import time
from typing import Any

import torch
from determined import pytorch
from torch import nn

# After the first checkpoint, and long before the second.
SLOW_FROM = 10


class Numbers(torch.utils.data.Dataset):  # type: ignore[misc]
    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.tensor([index / 40, 1.0])
        return x, 2 * x[:1] - 1


class Tell(pytorch.PyTorchCallback):
    """Every rank prints the losses and a digest of its own weights after each report."""

    def __init__(self, trial: "NoisyTrial") -> None:
        self.trial = trial

    def on_trial_startup(self, first_batch_idx: int, checkpoint_uuid: str | None) -> None:
        print(f"starts at batch {first_batch_idx}", flush=True)

    def on_training_workload_end(
        self, avg_metrics: dict[str, Any], batch_metrics: list[dict[str, Any]]
    ) -> None:
        digest = hashlib.sha256()
        for weight in self.trial.model.parameters():
            digest.update(weight.detach().numpy().tobytes())
        losses = [row["loss"] for row in batch_metrics]
        print(f"at batch {avg_metrics['batches']}: {digest.hexdigest()[:12]} {losses}", flush=True)


class NoisyTrial(pytorch.PyTorchTrial):
    def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
        super().__init__(context)
        self.context = context  # the stock harness leaves that to trials
        torch.set_num_threads(1)
        # Only the first run is slow, so that it can be interrupted.
        first_run = os.environ["DET_TRIAL_RUN_ID"] == "1"
        self.pause_s = float(context.get_hparam("pause_s")) if first_run else 0.0
        self.stop_at = context.get_hparam("stop_at")
        net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Dropout(0.5), nn.Linear(16, 1))
        self.model = context.wrap_model(net)
        adam = torch.optim.Adam(self.model.parameters(), lr=0.01)
        self.optimizer = context.wrap_optimizer(adam)

    def build_training_data_loader(self) -> pytorch.DataLoader:
        size = self.context.get_per_slot_batch_size()
        return pytorch.DataLoader(Numbers(), batch_size=size, shuffle=True)

    def build_validation_data_loader(self) -> pytorch.DataLoader:
        return pytorch.DataLoader(Numbers(), batch_size=10)

    def build_callbacks(self) -> dict[str, pytorch.PyTorchCallback]:
        return {"tell": Tell(self)}

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        if batch_idx >= SLOW_FROM:
            time.sleep(self.pause_s)
        last_rank = self.context.distributed.size - 1
        if batch_idx == self.stop_at and self.context.distributed.rank == last_rank:
            self.context.set_stop_requested(True)
        x, y = batch
        loss = nn.functional.mse_loss(self.model(x + 0.01 * random.random()), y)
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss}

    def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        x, y = batch
        return {"validation_loss": nn.functional.mse_loss(self.model(x), y)}
