"""Train a LightningModule as a PyTorchTrial, and with a Lightning Trainer and a DetLogger. Print the reports."""

import json
import pathlib
import sys
from typing import Any

import lightning
import torch
from determined import pytorch
from determined.experimental import core_v2
from determined.lightning import LightningAdapter
from determined.lightning.experimental import DetLogger

from tests.support.fake_core import FakeCore
from tests.support.torch_trials import Numbers, make_context


class Module(lightning.LightningModule):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.line = torch.nn.Linear(2, 1)
        self.epochs_ended: list[list[int]] = []
        self.step_positions: list[list[int]] = []

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        x, y = batch
        loss = torch.nn.functional.mse_loss(self.line(x), y)
        self.log("twice", 2 * loss)
        self.step_positions.append([self.current_epoch, self.global_step])
        return loss

    def validation_step(self, batch: Any, batch_idx: int) -> Any:
        x, y = batch
        self.log("val_loss", torch.nn.functional.mse_loss(self.line(x), y))

    def on_train_epoch_end(self) -> None:
        self.epochs_ended.append([self.current_epoch, self.global_step])
        self.print("as rank", self.global_rank)

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": schedule, "interval": "epoch"},
        }


class Trial(LightningAdapter):
    def __init__(self, context: Any) -> None:
        super().__init__(context, Module())

    def build_training_data_loader(self) -> Any:
        return pytorch.DataLoader(Numbers(), batch_size=4)

    def build_validation_data_loader(self) -> Any:
        return pytorch.DataLoader(Numbers(), batch_size=4)


class Started(FakeCore):
    info = None

    def start(self) -> None:
        self.train.set_metadata = lambda metadata: None  # type: ignore[attr-defined]

    def close(self) -> None:
        self.train.statuses.append("closed")


directory = pathlib.Path(sys.argv[1])
core = FakeCore(directory / "adapter")
context = make_context(core)
trial = Trial(context)
pytorch.Trainer(trial, context).fit(max_length=pytorch.Epoch(2), reporting_period=pytorch.Batch(1))

logged = Started(directory / "logger")
core_v2.init_context = lambda **_: logged  # type: ignore[assignment]
loader = torch.utils.data.DataLoader(Numbers(), batch_size=4)
trainer = lightning.Trainer(
    max_epochs=2,
    logger=DetLogger(),
    accelerator="cpu",
    log_every_n_steps=1,
    enable_progress_bar=False,
    enable_model_summary=False,
    default_root_dir=directory,
)
module = Module()
trainer.fit(module, loader, loader)
print(
    json.dumps(
        {
            "losses": core.losses(),
            "twice": [row["twice"] for _, _, rows in core.train.training for row in rows],
            "val": core.train.validations[-1][1]["val_loss"],
            "epochs_ended": trial.module.epochs_ended,
            "step_positions": trial.module.step_positions,
            "by_lightning": [module.epochs_ended, module.step_positions],
            "lr": trial.optimizer.param_groups[0]["lr"],
            "groups": [[group, steps, sorted(m)] for group, steps, m in logged.train.groups],
            "closed": logged.train.statuses,
            "checkpoints": sorted(logged.saved()),
        }
    )
)
