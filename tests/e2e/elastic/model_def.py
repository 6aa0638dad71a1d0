"""A trial that reports the records of each batch, slowly enough to lose machines meanwhile."""

import json
import os
import time
from typing import Any

import torch
from determined import pytorch
from determined.pytorch import DataLoader

RECORDS = 240


class Records(torch.utils.data.Dataset):  # type: ignore[misc]
    def __len__(self) -> int:
        return RECORDS

    def __getitem__(self, index: int) -> Any:
        return index, torch.tensor([index / RECORDS, 1.0])


class ElasticTrial(pytorch.PyTorchTrial):
    def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
        self.context = context
        self.model = context.wrap_model(torch.nn.Linear(2, 1))
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.optimizer = context.wrap_optimizer(optimizer)
        slots = context.distributed.size
        print(f"|| {slots} ranks from batch {context.get_initial_batch()}", flush=True)

    def build_training_data_loader(self) -> DataLoader:
        return DataLoader(Records(), self.context.get_per_slot_batch_size(), shuffle=True)

    def build_validation_data_loader(self) -> DataLoader:
        return DataLoader(Records(), 60)

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
        index, features = batch
        loss = ((self.model(features) - index[:, None] / RECORDS) ** 2).mean()
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        print(f"|| batch {batch_idx} {index.tolist()}", flush=True)
        self.note(batch_idx, index.tolist())
        time.sleep(self.context.get_hparam("pause_s"))
        return {"loss": loss}

    def note(self, batch_idx: int, records: list[int]) -> None:
        """Append a line to the file of the test, which outlives a kill of this process, unlike its last output."""
        path = self.context.get_hparams().get("notes")
        if path:
            line = [time.time(), os.environ["DET_ALLOCATION_ID"], batch_idx, records]
            with open(path, "a") as file:
                file.write(json.dumps(line) + "\n")

    def evaluate_batch(self, batch: Any, batch_idx: int) -> Any:
        return {"validation_loss": torch.zeros(())}
