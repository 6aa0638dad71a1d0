"""Train a tiny Keras model with a DeterminedCallback, and print the reports."""

import json
import os
import pathlib
import sys
from typing import Any

import numpy
import tensorflow as tf
from determined import keras

from tests.support.fake_core import FakeCore

DIRECTORY, EPOCHS, CHECKPOINT, PREEMPT = (
    pathlib.Path(sys.argv[1]),
    int(sys.argv[2]),
    sys.argv[3],
    sys.argv[4],
)
core: Any = FakeCore(DIRECTORY)
core.preempt.wanted = PREEMPT == "preempt"
x = numpy.linspace(0, 1, 8, dtype="float32").reshape(-1, 1)
tf.keras.utils.set_random_seed(1)
model = tf.keras.Sequential(
    [
        tf.keras.Input((1,)),
        tf.keras.layers.Dense(4),
        tf.keras.layers.Dropout(0.5),
        tf.keras.layers.Dense(1),
    ]
)
model.compile(optimizer=tf.keras.optimizers.Adam(0.1), loss="mse")


class WholeModels(keras.DeterminedCallback):
    """Saves whole models, and reads their file again before the first batch."""

    file = ""

    def save_model(self, model: Any, path: str, distributed: Any) -> None:
        model.save_weights(f"{path}-mine.weights.h5")

    def load_model(self, model: Any, path: str, distributed: Any) -> None:
        self.file = f"{path}-mine.weights.h5"

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if self.file:
            self.model.load_weights(self.file)
            self.file = ""


kind = WholeModels if "OWN_FORMAT" in os.environ else keras.DeterminedCallback
callback = kind(
    core, None if CHECKPOINT == "none" else CHECKPOINT, 1, train_metrics_report_period=2
)
fitted = model.fit(
    x,
    2 * x,
    batch_size=2,
    epochs=EPOCHS,
    shuffle=False,
    verbose=0,
    validation_data=(x, 2 * x),
    callbacks=[callback],
)
print(
    json.dumps(
        {
            "training": [[s, m] for s, m, _ in core.train.training],
            "validations": core.train.validations,
            "epochs": fitted.epoch,
            "weights": [w.tolist() for w in model.get_weights()],
            "saved": {
                s: [p.name, sorted(f.name for f in p.iterdir())] for s, p in core.saved().items()
            },
        }
    )
)
