"""Train a TFKerasTrial according to a plan, and print the reports."""

import json
import pathlib
import sys
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy
import tensorflow as tf
from determined import keras
from determined._trial_settings import TrialSettings
from determined.keras import _trainer
from determined.keras._trainer import KerasTrainer
from determined.workloads import Every, LocalSource, Plan

from tests.support.fake_core import FakeCore


class Counting(keras.callbacks.Callback):
    """Counts batches across restarts, and records the arguments of its hooks."""

    def __init__(self) -> None:
        super().__init__()
        self.batches = numpy.int64(0)
        self.callback_calls: list[list[Any]] = []

    def get_state(self) -> Any:
        return {"batches": self.batches}

    def load_state(self, state: Any) -> None:
        self.batches = state["batches"]

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.batches += 1

    def on_train_workload_begin(self, total_batches_trained: int, batches: Any, logs: Any) -> None:
        self.callback_calls.append(["begin", total_batches_trained, batches])

    def on_train_workload_end(self, total_batches_trained: int, logs: Any) -> None:
        self.callback_calls.append(["end", total_batches_trained, sorted(logs)])

    def on_checkpoint_end(self, checkpoint_dir: str) -> None:
        (pathlib.Path(checkpoint_dir) / "note.txt").write_text(str(self.batches))


class Whole(tf.keras.utils.Sequence):  # type: ignore[misc]
    """A sequence with all data in one batch."""

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> Any:
        x = numpy.linspace(0, 1, 8, dtype="float32").reshape(-1, 1)
        return x, 2 * x


class Trial(keras.TFKerasTrial):
    def __init__(self, context: keras.TFKerasTrialContext) -> None:
        super().__init__(context)
        self.stopper = keras.callbacks.EarlyStopping(monitor="val_loss", patience=1000)
        self.plateau = keras.callbacks.ReduceLROnPlateau(monitor="val_loss", patience=1000)
        self.counting = Counting()
        self.epochs: list[int] = []

    def build_model(self) -> Any:
        layers = [tf.keras.layers.Dense(4), tf.keras.layers.Dropout(0.5), tf.keras.layers.Dense(1)]
        model = tf.keras.Sequential([tf.keras.Input((1,)), *layers])
        model = self.context.wrap_model(model)
        optimizer = self.context.wrap_optimizer(tf.keras.optimizers.Adam(0.1))
        model.compile(optimizer=optimizer, loss="mse")
        return model

    def build_training_data_loader(self) -> keras.InputData:
        x = numpy.linspace(0, 1, 8, dtype="float32").reshape(-1, 1)
        dataset = tf.data.Dataset.from_tensor_slices((x, 2 * x))
        return self.context.wrap_dataset(dataset, shard_dataset=False).batch(2)

    def build_validation_data_loader(self) -> keras.InputData:
        return keras.SequenceAdapter(Whole(), workers=2)

    def keras_callbacks(self) -> list[Any]:
        callback = tf.keras.callbacks.LambdaCallback(
            on_epoch_end=lambda e, logs: self.epochs.append(e)
        )
        return [self.stopper, callback, self.plateau, self.counting]


def train(core: Any, batches: int, checkpoint: str | None = None) -> Any:
    tf.keras.utils.set_random_seed(1)
    context = keras.TFKerasTrialContext(core, TrialSettings(1, {}, {}))
    trainer = KerasTrainer(Trial(context), context)
    plan = Plan(batches, reporting=Every(3), validation=Every(5), checkpoint_policy="none")
    trainer.run(LocalSource(plan), batches, checkpoint)
    return trainer


def profiled(directory: pathlib.Path) -> list[str]:
    """Return the calls of the profiler in a trial with profiling in its configuration."""
    core: Any = FakeCore(directory)
    config = {"searcher": {"max_length": {"batches": 1}}, "profiling": {"enabled": True}}
    info = SimpleNamespace(
        trial=SimpleNamespace(_config=config, hparams={}), latest_checkpoint=None
    )
    settings = TrialSettings(1, {}, config)
    with (
        patch("determined.core.init", lambda **_: nullcontext(core)),
        patch("determined._legacy_plan.cluster_source", lambda _, plan: LocalSource(plan)),
        patch("determined.keras._trainer.make_settings", lambda *_: settings),
    ):
        _trainer.train_on_cluster(Trial, info)
    switched: list[str] = core.profiler.switched
    return switched


home = pathlib.Path(sys.argv[1])
whole: Any = FakeCore(home / "whole")
trained = train(whole, 10)
parts: Any = FakeCore(home / "parts")
train(parts, 5)
resumed = train(parts, 10, parts.saved()[5].name)
same = [a.tolist() for a in trained.model.get_weights()] == [
    a.tolist() for a in resumed.model.get_weights()
]
print(
    json.dumps(
        {
            "training": [s for s, _, _ in whole.train.training],
            "validations": [[s, sorted(m)] for s, m in whole.train.validations],
            "epochs": trained.trial.epochs,
            "saved": sorted(whole.saved()),
            "same": same,
            "profiled": profiled(home / "profiled"),
            "callback_calls": trained.trial.counting.callback_calls,
            "counted": [int(t.trial.counting.batches) for t in (trained, resumed)],
            "states": [
                [c.get_state() for c in (t.trial.stopper, t.trial.plateau)]
                for t in (trained, resumed)
            ],
            "note": (whole.saved()[10] / "note.txt").read_text(),
        }
    )
)
