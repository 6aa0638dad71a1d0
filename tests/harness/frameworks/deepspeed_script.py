"""Train a tiny model with a DeepSpeedTrial on the CPU, and write the chief's reports to a file."""

import json
import logging
import sys
from typing import Any

import deepspeed as ds
import torch
from determined import pytorch
from determined.pytorch import deepspeed

from tests.support.torch_trials import Numbers

OUTPUT, LENGTH, CHECKPOINT = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
CONFIG = {
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": 2,
    "optimizer": {"type": "Adam", "params": {"lr": 0.01, "torch_adam": True}},
    "zero_optimization": {"stage": 1},
}


class Trial(deepspeed.DeepSpeedTrial):
    def __init__(self, context: deepspeed.DeepSpeedTrialContext) -> None:
        super().__init__(context)
        net = torch.nn.Sequential(
            torch.nn.Linear(2, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1)
        )
        config = deepspeed.overwrite_deepspeed_config(
            CONFIG, {"optimizer": {"params": {"lr": 0.02}}}
        )
        engine, *_ = ds.initialize(model=net, model_parameters=net.parameters(), config=config)
        self.engine = context.wrap_model_engine(engine)

    def build_training_data_loader(self) -> Any:
        size = self.context.train_micro_batch_size_per_gpu
        return pytorch.DataLoader(Numbers(), batch_size=size, shuffle=True)

    def build_validation_data_loader(self) -> Any:
        return pytorch.DataLoader(Numbers(), batch_size=4)

    def loss(self, batches: Any) -> Any:
        assert self.context.num_micro_batches_per_slot == 2
        x, y = self.context.to_device(next(batches))
        return torch.nn.functional.mse_loss(self.engine(x), y)

    def train_batch(self, dataloader_iter: Any, epoch_idx: int, batch_idx: int) -> Any:
        loss = self.loss(dataloader_iter)
        self.engine.backward(loss)
        self.engine.step()
        return {"loss": loss}

    def evaluate_batch(self, dataloader_iter: Any, batch_idx: int) -> Any:
        return {"val_loss": self.loss(dataloader_iter)}


logging.disable(logging.INFO)
conf = {"reproducibility": {"experiment_seed": 3}}
with deepspeed.init(exp_conf=conf, enable_tensorboard_logging=False) as context:
    reported, core = [], context._core
    core.train.report_training_metrics = lambda *a: reported.append(["training", *a])
    core.train.report_validation_metrics = lambda *a: reported.append(["validation", *a])
    deepspeed.Trainer(Trial(context), context).fit(
        max_length=pytorch.Batch(LENGTH),
        reporting_period=pytorch.Batch(2),
        validation_period=pytorch.Batch(2),
        checkpoint_policy="none",
        latest_checkpoint=CHECKPOINT[0] if CHECKPOINT else None,
    )
    if context.distributed.rank == 0:
        with open(OUTPUT, "w") as f:
            json.dump(reported, f)
