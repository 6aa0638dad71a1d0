"""A LightningModule as a trial."""

from typing import Any

import lightning
import pace
import torch
from determined import pytorch
from determined.lightning import LightningAdapter


class Module(lightning.LightningModule):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.line = torch.nn.Linear(1, 1)

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        x, y = batch
        return torch.nn.functional.mse_loss(self.line(x), y)

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        x, y = batch
        self.log("val_loss", torch.nn.functional.mse_loss(self.line(x), y))

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Trial(LightningAdapter):
    def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
        super().__init__(context, Module())

    def loader(self) -> Any:
        x = torch.linspace(0, 1, 40).reshape(-1, 1)
        return pytorch.DataLoader(torch.utils.data.TensorDataset(x, 2 * x), batch_size=4)

    build_training_data_loader = build_validation_data_loader = loader

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
        result = super().train_batch(batch, epoch_idx, batch_idx)
        pace.step(batch_idx + 1)
        return result
