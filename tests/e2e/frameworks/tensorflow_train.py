"""Keras' own fit under Determined: an epoch of one batch is a step."""

import determined as det
import numpy
import pace
import tensorflow as tf
from determined import keras


class Pace(tf.keras.callbacks.Callback):  # type: ignore[misc]
    def on_epoch_end(self, epoch: int, logs: object = None) -> None:
        pace.step(epoch + 1)


def main(core: "det.core.Context") -> None:
    info = det.get_cluster_info()
    assert info is not None
    x = numpy.linspace(0, 1, 8, dtype="float32").reshape(-1, 1)
    model = tf.keras.Sequential([tf.keras.Input((1,)), tf.keras.layers.Dense(1)])
    model.compile(optimizer=tf.keras.optimizers.Adam(0.1), loss="mse")
    callback = keras.DeterminedCallback(core, info.latest_checkpoint, info.trial.trial_id)
    model.fit(
        x,
        2 * x,
        batch_size=8,
        epochs=40,
        verbose=0,
        validation_data=(x, 2 * x),
        callbacks=[Pace(), callback],
    )


if __name__ == "__main__":
    with det.core.init() as core:
        main(core)
