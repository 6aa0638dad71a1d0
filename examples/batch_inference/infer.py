"""Classify many pictures on all slots, with the model of a checkpoint of examples/pytorch_mnist_like.

det experiment create inference.yaml . --include ../pytorch_mnist_like --config hyperparameters.checkpoint=UUID
"""

import json
import pathlib
import statistics
import sys
from typing import Any

import determined as det
import torch
from determined import pytorch
from determined.experimental import client
from determined.pytorch import experimental

# `--include` has put the code of the model beside this file.
sys.path.insert(0, str(pathlib.Path(__file__).parent / "pytorch_mnist_like"))
from model_def import Digits, DigitsTrial

HPARAMS = det.get_cluster_info().trial.hparams


class Classify(experimental.TorchBatchProcessor):
    def __init__(self, context: experimental.TorchBatchProcessorContext) -> None:
        self.context = context
        checkpoint = client.get_checkpoint(HPARAMS["checkpoint"])
        trial = pytorch.load_trial_from_checkpoint_path(
            checkpoint.download(f"checkpoint_{context.get_distributed_rank()}"),
            trial_class=DigitsTrial,
        )
        self.model = context.prepare_model_for_inference(trial.model)
        # The page of the checkpoint shows the metrics of this run.
        context.report_task_using_checkpoint(checkpoint)
        # Averaged over all slots and reported in the group `inference` at the end.
        self.accuracy = context.wrap_reducer(statistics.mean, name="accuracy")
        self.guesses: list[int] = []
        self.last_batch = 0

    def process_batch(self, batch: Any, batch_idx: int) -> None:
        pictures, labels = self.context.to_device(batch)
        with torch.no_grad():
            guesses = self.model(pictures).argmax(1)
        self.accuracy.update((guesses == labels).float().mean().item())
        self.guesses += guesses.tolist()
        self.last_batch = batch_idx

    def on_checkpoint_start(self) -> None:
        """Write the predictions since the last checkpoint. A resumed run begins behind them."""
        if self.guesses:
            name = f"guesses_{self.context.get_distributed_rank()}_{self.last_batch}.json"
            with self.context.upload_path() as folder:
                (pathlib.Path(folder) / name).write_text(json.dumps(self.guesses))
        self.guesses = []


if __name__ == "__main__":
    pictures = Digits(HPARAMS["records"], offset=2_000_000)
    experimental.torch_batch_process(Classify, pictures, batch_size=50, checkpoint_interval=5)
