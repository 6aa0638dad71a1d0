from typing import Any

import tensorflow as tf


class TensorBoard(tf.keras.callbacks.TensorBoard):  # type: ignore[misc]
    """Keras's TensorBoard callback. It writes to the directory that this trial uploads."""

    def __init__(self, core_context: Any, *args: Any, **kwargs: Any) -> None:
        if "log_dir" in kwargs or args:
            raise ValueError("log_dir is given by the trial: leave it out")
        super().__init__(log_dir=str(core_context.train.get_tensorboard_path()), **kwargs)
