"""Train the network as a trial: report metrics, save checkpoints, stop on request and resume.

On a cluster: `det experiment create adaptive.yaml .`; alone: `python3 train.py`.
"""

import json
import logging
import pathlib
from typing import Any

import determined as det
import digits
import network
import numpy as np

BATCHES = 480
VALIDATION_PERIOD = 30
CHECKPOINT_PERIOD = 120
DEFAULTS = {"learning_rate": 0.1, "momentum": 0.9, "hidden_units": 64, "batch_size": 128}


class Training:
    """The complete state of one trial. `save` and `load` include all of it, so that a resume changes no result."""

    def __init__(self, hparams: dict[str, Any], seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.batches = 0
        self._batch_size = int(hparams["batch_size"])
        self._data = digits.draw(12_000, seed=1)
        self._validation = digits.draw(3_000, seed=2)
        self.model = network.Network(
            digits.SIDE * digits.SIDE, int(hparams["hidden_units"]), 10, self.rng
        )
        self.optimizer = network.Momentum(
            self.model.weights, float(hparams["learning_rate"]), float(hparams["momentum"])
        )

    def train_batch(self) -> float:
        x, y = self._data
        rows = self.rng.integers(0, len(y), self._batch_size)
        loss, gradient = self.model.loss_and_gradient(x[rows], y[rows])
        self.optimizer.step(self.model.weights, gradient)
        self.batches += 1
        return loss

    def validate(self) -> dict[str, float]:
        return self.model.evaluate(*self._validation)

    def save(self, folder: pathlib.Path) -> None:
        np.savez(folder / "arrays.npz", **network.arrays_of(self.model, self.optimizer))
        state = {"batches": self.batches, "rng": self.rng.bit_generator.state}
        (folder / "state.json").write_text(json.dumps(state))

    def load(self, folder: pathlib.Path) -> None:
        with np.load(folder / "arrays.npz") as arrays:
            network.restore(self.model, self.optimizer, arrays)
        state = json.loads((folder / "state.json").read_text())
        self.batches = state["batches"]
        self.rng.bit_generator.state = state["rng"]


def save_checkpoint(core: det.core.Context, training: Training) -> None:
    with core.checkpoint.store_path({"steps_completed": training.batches}) as (folder, _):
        training.save(folder)


def run(core: det.core.Context, training: Training, batches: int) -> None:
    """Train up to `batches`; leave early, saved, when the scheduler or the searcher asks for it."""
    losses: list[float] = []
    saved_at = training.batches
    while training.batches < batches:
        losses.append(training.train_batch())
        if training.batches % VALIDATION_PERIOD == 0 or training.batches == batches:
            report(core, training, losses, batches)
            losses = []
        if training.batches % CHECKPOINT_PERIOD == 0:
            save_checkpoint(core, training)
            saved_at = training.batches
        if core.preempt.should_preempt():
            break
    if saved_at != training.batches:
        save_checkpoint(core, training)


def report(core: det.core.Context, training: Training, losses: list[float], batches: int) -> None:
    step = training.batches
    core.train.report_training_metrics(step, {"loss": float(np.mean(losses)), "batches": step})
    metrics = training.validate()
    core.train.report_validation_metrics(step, {**metrics, "batches": step})
    core.train.report_progress(step / batches)
    print(f"batch {step}: validation error {metrics['validation_error']:.3f}")


def main() -> None:
    info = det.get_cluster_info()
    hparams = {**DEFAULTS, **(info.trial.hparams if info else {})}
    training = Training(hparams, info.trial.trial_seed if info else 0)
    with det.core.init() as core:
        if info and info.latest_checkpoint:
            with core.checkpoint.restore_path(info.latest_checkpoint) as folder:
                training.load(folder)
            print(f"going on at batch {training.batches}")
        run(core, training, BATCHES)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(levelname)s: %(message)s")
    main()
