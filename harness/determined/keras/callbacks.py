"""Callbacks of a TFKerasTrial. Keras's own work too; these follow the trial's validations and survive its restarts."""

from typing import Any, Dict, Optional, Tuple

import tensorflow as tf


class Callback(tf.keras.callbacks.Callback):  # type: ignore[misc]
    """Keras's callback, with hooks for a trial's workloads and checkpoints, which keep its state."""

    def get_state(self) -> Any:
        """Return what checkpoints keep of this callback, in JSON's types."""
        return None

    def load_state(self, state: Any) -> None:
        """Take over what `get_state` returned before a restart; called after `on_train_begin`."""

    def on_train_workload_begin(
        self,
        total_batches_trained: int,
        batches_requested: Optional[int],
        logs: Dict[str, Any],
    ) -> None:
        """Run before each stretch of batches that ends with a report."""

    def on_train_workload_end(self, total_batches_trained: int, logs: Dict[str, Any]) -> None:
        """Run after each stretch of batches that ends with a report."""

    def on_checkpoint_end(self, checkpoint_dir: str) -> None:
        """Run after a checkpoint is written, on the chief. Files added to the directory are stored with it."""


class _CountsValidations(Callback):
    """Adapts Keras's callbacks that count epochs: their epochs are the trial's validations."""

    _kept: Tuple[str, ...] = ()
    _validations = 0

    def on_epoch_end(self, epoch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        """Ignore the epoch: validations count."""

    def on_test_end(self, logs: Optional[Dict[str, Any]] = None) -> None:
        super().on_epoch_end(self._validations, logs)
        self._validations += 1

    def get_state(self) -> Any:
        # Versions of Keras differ in what they count.
        return {name: getattr(self, name) for name in self._kept if hasattr(self, name)}

    def load_state(self, state: Any) -> None:
        for name in self._kept:
            if name in state:
                setattr(self, name, state[name])


class EarlyStopping(_CountsValidations, tf.keras.callbacks.EarlyStopping):  # type: ignore[misc]
    """Stops the trial; it counts validations where Keras's counts epochs."""

    _kept = ("_validations", "wait", "stopped_epoch", "best", "best_epoch")


class ReduceLROnPlateau(_CountsValidations, tf.keras.callbacks.ReduceLROnPlateau):  # type: ignore[misc]
    """Lowers the learning rate; it counts validations where Keras's counts epochs."""

    _kept = ("_validations", "wait", "cooldown_counter", "best")


class TensorBoard(Callback, tf.keras.callbacks.TensorBoard):  # type: ignore[misc]
    """Writes where the trial's TensorBoard files are uploaded from, whatever `log_dir` says."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.pop("log_dir", None)
        super().__init__(*args, **kwargs)
