"""Train several cases on every rank with any launcher, and write weights, gradients and losses to a file.

Arguments: the file, and a JSON list of objects with the fields of Case.
"""

import json
import logging
import os
import pathlib
import sys
import warnings
from dataclasses import dataclass, field
from typing import Any

import torch
from determined import core, pytorch
from torch import nn

from tests.support.torch_trials import BATCH, Numbers


@dataclass(frozen=True)
class Case:
    length: int = 6
    optimizer: str = "AdamW"
    aggregation_frequency: int = 1
    optimizations: dict[str, Any] = field(default_factory=dict)
    scaled: bool = False
    checkpoint: str | None = None
    # If true, the script makes the distributed context, instead of `pytorch.init()`.
    own_context: bool = False


class Trial(pytorch.PyTorchTrial):
    def __init__(self, context: pytorch.PyTorchTrialContext, case: Case) -> None:
        super().__init__(context)
        # Each rank starts with different weights, so the chief's weights must be copied to it.
        with torch.random.fork_rng():
            torch.manual_seed(context.distributed.rank)
            net = nn.Sequential(nn.Linear(2, 16), nn.BatchNorm1d(16), nn.Tanh(), nn.Linear(16, 1))
        self.model = context.wrap_model(net)
        make = getattr(torch.optim, case.optimizer)
        self.optimizer = context.wrap_optimizer(
            make(self.model.parameters(), lr=0.05, weight_decay=0.1)
        )
        scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
        self.scaler = context.wrap_scaler(scaler) if case.scaled else None
        self.gradients: list[Any] = []

    def build_training_data_loader(self) -> pytorch.DataLoader:
        return pytorch.DataLoader(Numbers(), batch_size=BATCH, shuffle=True)

    def build_validation_data_loader(self) -> pytorch.DataLoader:
        return pytorch.DataLoader(Numbers(), batch_size=BATCH)

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
        x, y = batch
        loss = nn.functional.mse_loss(self.model(x), y)
        self.context.backward(self.scaler.scale(loss) if self.scaler else loss)
        self.context.step_optimizer(self.optimizer, clip_grads=self.clip, scaler=self.scaler)
        if self.scaler:
            self.scaler.update()
        return {"loss": loss}

    def clip(self, parameters: Any) -> None:
        """Record the exchanged gradients before they are clipped."""
        weights = list(parameters)
        self.gradients = [w.grad.flatten().tolist() for w in weights]
        nn.utils.clip_grad_value_(weights, 0.5)

    def evaluate_batch(self, batch: Any, batch_idx: int) -> Any:
        x, y = batch
        return {"val_loss": nn.functional.mse_loss(self.model(x), y)}


def own_context() -> Any:
    import horovod.torch as hvd

    hvd.init()
    return core.DistributedContext.from_horovod(hvd)


def train(case: Case) -> Any:
    """Return the results of a case. Ranks other than the chief return None."""
    earlier_checkpoints = saved()
    conf = {"reproducibility": {"experiment_seed": 3}, "optimizations": case.optimizations}
    with pytorch.init(
        exp_conf=conf,
        distributed=own_context() if case.own_context else None,
        aggregation_frequency=case.aggregation_frequency,
        enable_tensorboard_logging=False,
    ) as context:
        losses: list[float] = []
        context._core.train.report_training_metrics = lambda steps, mean, rows: losses.extend(
            row["loss"] for row in rows
        )
        trial = Trial(context, case)
        pytorch.Trainer(trial, context).fit(
            max_length=pytorch.Batch(case.length),
            reporting_period=pytorch.Batch(2),
            latest_checkpoint=case.checkpoint,
        )
        weights = [p.detach().flatten().tolist() for p in trial.model.parameters()]
        results = context.distributed.gather([weights, trial.gradients])
    if results is None:
        return None
    weights_by_rank, gradients = zip(*results, strict=True)
    return {
        "weights": weights_by_rank,
        "gradients": gradients,
        "losses": losses,
        "saved": sorted(saved() - earlier_checkpoints),
    }


def saved() -> set[str]:
    folder = pathlib.Path(os.environ["HOME"]) / "share" / "determined" / "checkpoints"
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


OUTPUT, CASES = sys.argv[1], [Case(**case) for case in json.loads(sys.argv[2])]
torch.set_num_threads(1)
logging.disable(logging.INFO)
# Horovod warns if gradients are exchanged twice.
warnings.filterwarnings("error", message=".*skip_synchronize.*")
reports = [train(case) for case in CASES]
if reports[0] is not None:
    with open(OUTPUT, "w") as f:
        json.dump(reports, f)
