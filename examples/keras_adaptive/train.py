"""A Keras classifier with a width and a learning rate that adaptive_asha chooses."""

import determined as det
import numpy as np
import tensorflow as tf
from determined import keras

HPARAMS = {"units": 16, "learning_rate": 0.01, "epochs": 9}


def rings(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw points of two rings around each other."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, count)
    radii, angles = 1 + labels + rng.normal(0, 0.2, count), rng.uniform(0, 2 * np.pi, count)
    points = np.stack([radii * np.cos(angles), radii * np.sin(angles)], axis=1)
    return points.astype("float32"), labels


def build(hparams: dict) -> tf.keras.Model:
    model = tf.keras.Sequential(
        [
            tf.keras.Input((2,)),
            tf.keras.layers.Dense(hparams["units"], activation="relu"),
            tf.keras.layers.Dense(2, activation="softmax"),
        ]
    )
    optimizer = tf.keras.optimizers.Adam(hparams["learning_rate"])
    model.compile(optimizer, loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def main(core: det.core.Context) -> None:
    info = det.get_cluster_info()
    hparams = {**HPARAMS, **(info.trial.hparams if info else {})}
    # It reports metrics, saves after each epoch, stops when the searcher or the cluster asks, and resumes from a
    # checkpoint.
    callback = keras.DeterminedCallback(
        core,
        checkpoint=info.latest_checkpoint if info else None,
        continue_id=info.trial.trial_id if info else None,
    )
    x, y = rings(1_000, seed=1)
    build(hparams).fit(
        x,
        y,
        batch_size=50,
        epochs=hparams["epochs"],
        validation_data=rings(300, seed=2),
        callbacks=[callback],
        verbose=0,
    )


if __name__ == "__main__":
    with det.core.init() as core:
        main(core)
