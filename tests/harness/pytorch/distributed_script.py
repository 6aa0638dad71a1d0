"""Train on every rank, started with torchrun's variables, and write the chief's reports to a file."""

import json
import logging
import sys
from typing import Any

import torch
from determined import pytorch
from determined.pytorch import Batch

from tests.support.torch_trials import NoisyTrial


class Distributed(NoisyTrial):
    """Stops all ranks when one of them requests it, and counts records with a reducer."""

    def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
        super().__init__(context)
        self.count = context.wrap_reducer(sum, name="records")

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
        self.count.update(len(batch[0]))
        last = self.context.distributed.size - 1
        if batch_idx == STOP_IN_BATCH and self.context.distributed.rank == last:
            self.context.set_stop_requested(True)
        return super().train_batch(batch, epoch_idx, batch_idx)

    def evaluate_batch(self, batch: Any, batch_idx: int) -> Any:
        self.count.update(len(batch[0]))
        return super().evaluate_batch(batch, batch_idx)


OUTPUT, LENGTH, STOP_IN_BATCH, CHECKPOINT = (
    sys.argv[1],
    int(sys.argv[2]),
    int(sys.argv[3]),
    sys.argv[4:],
)
torch.set_num_threads(1)
logging.disable(logging.INFO)
conf = {"reproducibility": {"experiment_seed": 3}}
with pytorch.init(exp_conf=conf, enable_tensorboard_logging=False) as context:
    reported, core = [], context._core
    core.train.report_training_metrics = lambda *a: reported.append(["training", *a])
    core.train.report_validation_metrics = lambda *a: reported.append(["validation", *a])
    trial = Distributed(context)
    pytorch.Trainer(trial, context).fit(
        max_length=Batch(LENGTH),
        reporting_period=Batch(2),
        validation_period=Batch(4),
        checkpoint_policy="none",
        latest_checkpoint=CHECKPOINT[0] if CHECKPOINT else None,
    )
    weights = [p.detach().flatten().tolist() for p in trial.model.parameters()]
    results = context.distributed.gather([trial.seen, weights])
    if results is not None:
        seen, weights_by_rank = zip(*results, strict=True)
        with open(OUTPUT, "w") as f:
            json.dump({"reported": reported, "seen": seen, "weights": weights_by_rank}, f)
