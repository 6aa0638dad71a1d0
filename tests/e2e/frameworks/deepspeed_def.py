"""DeepSpeed with ZeRO 1 on CPUs."""

from typing import Any

import deepspeed as ds
import pace
import torch
from determined import pytorch
from determined.pytorch import deepspeed

CONFIG = {
    "train_micro_batch_size_per_gpu": 2,
    "optimizer": {"type": "Adam", "params": {"lr": 0.01, "torch_adam": True}},
    "zero_optimization": {"stage": 1},
}


class Trial(deepspeed.DeepSpeedTrial):
    def __init__(self, context: deepspeed.DeepSpeedTrialContext) -> None:
        super().__init__(context)
        net = torch.nn.Linear(1, 1)
        engine, *_ = ds.initialize(model=net, model_parameters=net.parameters(), config=CONFIG)
        self.engine = context.wrap_model_engine(engine)

    def loader(self) -> Any:
        x = torch.linspace(0, 1, 40).reshape(-1, 1)
        return pytorch.DataLoader(torch.utils.data.TensorDataset(x, 2 * x), batch_size=2)

    build_training_data_loader = build_validation_data_loader = loader

    def loss(self, batches: Any) -> Any:
        x, y = self.context.to_device(next(batches))
        return torch.nn.functional.mse_loss(self.engine(x), y)

    def train_batch(self, dataloader_iter: Any, epoch_idx: int, batch_idx: int) -> Any:
        loss = self.loss(dataloader_iter)
        self.engine.backward(loss)
        self.engine.step()
        pace.step(batch_idx + 1)
        return {"loss": loss}

    def evaluate_batch(self, dataloader_iter: Any, batch_idx: int) -> Any:
        return {"val_loss": self.loss(dataloader_iter)}
