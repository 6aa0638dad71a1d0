"""A trial with a model that FSDP2 can shard by blocks, an optimizer with momentum and a scheduler."""

from typing import Any

import torch
from determined import pytorch
from torch import nn

from tests.support.torch_trials import BATCH, Numbers


class Block(nn.Module):  # type: ignore[misc]
    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(width, 3 * width), nn.Tanh(), nn.Linear(3 * width, width)
        )

    def forward(self, x: torch.Tensor) -> Any:
        return x + self.layers(x)


class BlockTrial(pytorch.PyTorchTrial):
    """A small model, sharded by its blocks unless `plan` is None."""

    plan: Any = pytorch.FSDP(Block)

    def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
        super().__init__(context)
        net = nn.Sequential(nn.Linear(2, 5), Block(5), Block(5), nn.Linear(5, 1))
        self.model = context.wrap_model(net, parallel=self.plan)
        adam = torch.optim.AdamW(self.model.parameters(), lr=0.01)
        self.optimizer = context.wrap_optimizer(adam)
        schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, 2, gamma=0.9)
        mode = pytorch.LRScheduler.StepMode.STEP_EVERY_BATCH
        self.scheduler = context.wrap_lr_scheduler(schedule, mode)

    def build_training_data_loader(self) -> pytorch.DataLoader:
        return pytorch.DataLoader(Numbers(), batch_size=BATCH)

    def build_validation_data_loader(self) -> pytorch.DataLoader:
        """Return 11 batches, so that most numbers of ranks get different numbers of batches."""
        return pytorch.DataLoader(Numbers(), batch_size=2)

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
        x, y = batch
        loss = nn.functional.mse_loss(self.model(x), y)
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss}

    def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        x, y = batch
        return {"val_loss": nn.functional.mse_loss(self.model(x), y)}
