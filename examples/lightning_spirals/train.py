"""A LightningModule and Lightning's own Trainer: a DetLogger reports to the trial that runs the script.

Off a cluster (`python3 train.py` with DET_MASTER set) it makes an experiment of its own to report to.
"""

import pathlib

import determined as det
import lightning
import spirals
import torch
from determined.experimental import core_v2
from determined.lightning.experimental import DetLogger
from lightning.pytorch.callbacks import Callback, ModelCheckpoint

HPARAMS = {"learning_rate": 0.01, "epochs": 5}


class Classifier(lightning.LightningModule):
    def __init__(self, learning_rate: float) -> None:
        super().__init__()
        self.learning_rate = learning_rate
        self.net = torch.nn.Sequential(
            torch.nn.Linear(2, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2)
        )

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        loss = self.loss(batch)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch: list[torch.Tensor], batch_idx: int) -> None:
        self.log("val_loss", self.loss(batch))

    def loss(self, batch: list[torch.Tensor]) -> torch.Tensor:
        points, labels = batch
        return torch.nn.functional.cross_entropy(self.net(points), labels)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=self.learning_rate)


class LeaveWhenAsked(Callback):
    """Stop after an epoch with a stored checkpoint when the cluster needs the slots."""

    def on_train_epoch_end(self, trainer: lightning.Trainer, module: Classifier) -> None:
        trainer.should_stop = trainer.logger.experiment.preempt.should_preempt()


def main() -> None:
    info = det.get_cluster_info()
    hparams = {**HPARAMS, **(info.trial.hparams if info else {})}
    logger = DetLogger(defaults=core_v2.DefaultConfig(name="lightning-spirals"))
    trainer = lightning.Trainer(
        max_epochs=hparams["epochs"],
        accelerator="auto",
        devices=1,
        logger=logger,
        callbacks=[LeaveWhenAsked(), ModelCheckpoint("checkpoints", every_n_epochs=1)],
        log_every_n_steps=10,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    loaders = [
        torch.utils.data.DataLoader(spirals.draw(1_000, seed=1), batch_size=50, shuffle=True),
        torch.utils.data.DataLoader(spirals.draw(200, seed=2), batch_size=50),
    ]
    model = Classifier(hparams["learning_rate"])
    if info and info.latest_checkpoint:
        with logger.experiment.checkpoint.restore_path(info.latest_checkpoint) as folder:
            (saved,) = pathlib.Path(folder).glob("*.ckpt")
            trainer.fit(model, *loaders, ckpt_path=str(saved))
    else:
        trainer.fit(model, *loaders)


if __name__ == "__main__":
    main()
