"""Callbacks of a TFKerasTrial. Unlike Keras's own, they follow the trial's validations and survive its restarts."""

from typing import Any, Dict, Optional, Tuple

import tensorflow as tf


class Callback(tf.keras.callbacks.Callback):  # type: ignore[misc]
    """A Keras callback with additional hooks for workloads and checkpoints. Checkpoints store its state."""

    def get_state(self) -> Any:
        """Return the state to store in checkpoints, as JSON values."""
        return None

    def load_state(self, state: Any) -> None:
        """Restore the state that `get_state` returned before a restart. This is called after `on_train_begin`."""

    def on_train_workload_begin(
        self,
        total_batches_trained: int,
        batches_requested: Optional[int],
        logs: Dict[str, Any],
    ) -> None:
        """Run before each group of batches that ends with a report."""

    def on_train_workload_end(self, total_batches_trained: int, logs: Dict[str, Any]) -> None:
        """Run after each group of batches that ends with a report."""

    def on_checkpoint_end(self, checkpoint_dir: str) -> None:
        """Run on the chief after a checkpoint was written. Files added to the directory are stored with it."""


class _CountsValidations(Callback):
    """Makes Keras callbacks that count epochs count the trial's validations instead."""

    _state_names: Tuple[str, ...] = ()
    _validations = 0

    def on_epoch_end(self, epoch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        """Ignore epochs, because validations are counted."""

    def on_test_end(self, logs: Optional[Dict[str, Any]] = None) -> None:
        super().on_epoch_end(self._validations, logs)
        self._validations += 1

    def get_state(self) -> Any:
        # The attributes depend on the version of Keras.
        return {name: getattr(self, name) for name in self._state_names if hasattr(self, name)}

    def load_state(self, state: Any) -> None:
        for name in self._state_names:
            if name in state:
                setattr(self, name, state[name])


class EarlyStopping(_CountsValidations, tf.keras.callbacks.EarlyStopping):  # type: ignore[misc]
    """Stops the trial. Unlike Keras's EarlyStopping, it counts validations instead of epochs."""

    _state_names = ("_validations", "wait", "stopped_epoch", "best", "best_epoch")


class ReduceLROnPlateau(_CountsValidations, tf.keras.callbacks.ReduceLROnPlateau):  # type: ignore[misc]
    """Lowers the learning rate. Unlike Keras's ReduceLROnPlateau, it counts validations instead of epochs."""

    _state_names = ("_validations", "wait", "cooldown_counter", "best")


class TensorBoard(Callback, tf.keras.callbacks.TensorBoard):  # type: ignore[misc]
    """Writes to the directory that the trial uploads, and ignores `log_dir`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.pop("log_dir", None)
        super().__init__(*args, **kwargs)
