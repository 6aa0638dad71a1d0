"""A TFKerasTrial that runs without a training script."""

from typing import Any

import numpy
import tensorflow as tf
from determined import keras


class Trial(keras.TFKerasTrial):
    def build_model(self) -> Any:
        model = tf.keras.Sequential([tf.keras.Input((1,)), tf.keras.layers.Dense(1)])
        model = self.context.wrap_model(model)
        model.compile(optimizer=tf.keras.optimizers.SGD(self.context.get_hparam("lr")), loss="mse")
        return model

    def _data(self) -> Any:
        x = numpy.linspace(0, 1, 8, dtype="float32").reshape(-1, 1)
        return self.context.wrap_dataset(tf.data.Dataset.from_tensor_slices((x, 2 * x)).batch(2))

    build_training_data_loader = build_validation_data_loader = _data

    def keras_callbacks(self) -> list[Any]:
        log_line = tf.keras.callbacks.LambdaCallback(
            on_train_batch_end=lambda batch, logs: print("trained a batch", flush=True)
        )
        return [log_line]
