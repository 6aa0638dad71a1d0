"""A DeepSpeedTrial: DeepSpeed's engine shards the optimizer over the slots (ZeRO 1)."""

from collections.abc import Iterator
from typing import Any

import deepspeed
import torch
from determined import pytorch
from determined.pytorch import deepspeed as det_deepspeed


def sine(count: int, seed: int) -> torch.utils.data.TensorDataset:
    """Draw points of a curve, so that the example downloads no data."""
    x = torch.rand(count, 1, generator=torch.Generator().manual_seed(seed))
    return torch.utils.data.TensorDataset(x, torch.sin(6 * x))


class SineTrial(det_deepspeed.DeepSpeedTrial):
    def __init__(self, context: det_deepspeed.DeepSpeedTrialContext) -> None:
        super().__init__(context)
        net = torch.nn.Sequential(torch.nn.Linear(1, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
        # Searched values of DeepSpeed's own configuration go to `overwrites`.
        config = det_deepspeed.overwrite_deepspeed_config(
            context.get_hparam("deepspeed_config"), context.get_hparams().get("overwrites", {})
        )
        engine, *_ = deepspeed.initialize(
            model=net, model_parameters=net.parameters(), config=config
        )
        self.engine = context.wrap_model_engine(engine)

    def build_training_data_loader(self) -> pytorch.DataLoader:
        size = self.context.get_train_micro_batch_size_per_gpu()
        return pytorch.DataLoader(sine(2_000, seed=1), batch_size=size, shuffle=True)

    def build_validation_data_loader(self) -> pytorch.DataLoader:
        size = self.context.get_train_micro_batch_size_per_gpu()
        return pytorch.DataLoader(sine(200, seed=2), batch_size=size)

    def train_batch(
        self, dataloader_iter: Iterator[Any], epoch_idx: int, batch_idx: int
    ) -> dict[str, Any]:
        loss = self.loss(dataloader_iter)
        self.engine.backward(loss)
        self.engine.step()
        return {"loss": loss}

    def evaluate_batch(self, dataloader_iter: Iterator[Any], batch_idx: int) -> dict[str, Any]:
        return {"validation_loss": self.loss(dataloader_iter)}

    def loss(self, batches: Iterator[Any]) -> torch.Tensor:
        x, y = self.context.to_device(next(batches))
        return torch.nn.functional.mse_loss(self.engine(x), y)
