"""Train an elastic trial on every rank, started with torchrun's variables, and write the results to a file."""

import json
import logging
import sys
from typing import Any

import torch
from determined import pytorch
from determined.pytorch import Batch, DataLoader

RECORDS = 22


class Records(torch.utils.data.Dataset):  # type: ignore[misc]
    def __len__(self) -> int:
        return RECORDS

    def __getitem__(self, index: int) -> tuple[int, torch.Tensor]:
        return index, torch.tensor([index / RECORDS, 1.0])


class ElasticTrial(pytorch.PyTorchTrial):
    def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
        self.context = context
        torch.manual_seed(0)
        plan = pytorch.FSDP() if IS_SHARDED else None
        self.model: Any = context.wrap_model(torch.nn.Linear(2, 1), parallel=plan)
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.5, momentum=0.9)
        self.optimizer = context.wrap_optimizer(optimizer)
        self.seen: list[tuple[int, list[int]]] = []

    def build_training_data_loader(self) -> DataLoader:
        return DataLoader(Records(), self.context.get_per_slot_batch_size(), shuffle=True)

    def build_validation_data_loader(self) -> DataLoader:
        return DataLoader(Records(), self.context.get_per_slot_batch_size())

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        index, features = batch
        if self.context._loss_weight:
            self.seen.append((batch_idx, index.tolist()))
        loss = ((self.model(features) - (index[:, None] / RECORDS) ** 2) ** 2).mean()
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss}

    def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        return {"loss": torch.zeros(())}


OUTPUT, LENGTH, CHECKPOINT = sys.argv[1], int(sys.argv[2]), sys.argv[4:]
IS_SHARDED = sys.argv[3] == "sharded"
torch.set_num_threads(1)
logging.disable(logging.INFO)
conf = {
    "reproducibility": {"experiment_seed": 3},
    "resources": {"slots_per_trial": 4, "min_slots_per_trial": 1},
}
hparams = {"global_batch_size": 8}
with pytorch.init(exp_conf=conf, hparams=hparams, enable_tensorboard_logging=False) as context:
    saved: list[str] = []
    trial = ElasticTrial(context)
    pytorch.Trainer(trial, context).fit(
        max_length=Batch(LENGTH),
        reporting_period=Batch(2),
        checkpoint_policy="all",
        latest_checkpoint=CHECKPOINT[0] if CHECKPOINT else None,
    )
    whole = [p.full_tensor() if IS_SHARDED else p for p in trial.model.parameters()]
    weights = [p.detach().flatten().tolist() for p in whole]
    results = context.distributed.gather([trial.seen, weights])
    if results is not None:
        seen = [step for own, _ in results for step in own]
        with open(OUTPUT, "w") as f:
            json.dump({"seen": seen, "weights": results[0][1]}, f)
