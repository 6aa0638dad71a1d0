"""Callbacks of a TFKerasTrial. Keras's own work too; these follow the trial's validations."""

from typing import Any, Dict, Optional

import tensorflow as tf

Callback = tf.keras.callbacks.Callback


class EarlyStopping(tf.keras.callbacks.EarlyStopping):  # type: ignore[misc]
    """Stops the trial; it counts validations where Keras's counts epochs."""

    _validations = 0

    def on_epoch_end(self, epoch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        """Epochs do not count."""

    def on_test_end(self, logs: Optional[Dict[str, Any]] = None) -> None:
        super().on_epoch_end(self._validations, logs)
        self._validations += 1


class ReduceLROnPlateau(tf.keras.callbacks.ReduceLROnPlateau):  # type: ignore[misc]
    """Lowers the learning rate; it counts validations where Keras's counts epochs."""

    _validations = 0

    def on_epoch_end(self, epoch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        """Epochs do not count."""

    def on_test_end(self, logs: Optional[Dict[str, Any]] = None) -> None:
        super().on_epoch_end(self._validations, logs)
        self._validations += 1


class TensorBoard(tf.keras.callbacks.TensorBoard):  # type: ignore[misc]
    """Writes where the trial's TensorBoard files are uploaded from, whatever `log_dir` says."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.pop("log_dir", None)
        super().__init__(*args, **kwargs)
