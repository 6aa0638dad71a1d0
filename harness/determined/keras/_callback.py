"""DeterminedCallback, which adds reports, checkpoints, preemption and resuming to `model.fit`."""

import contextlib
import json
import logging
import pathlib
from typing import Any, Dict, Mapping, Optional, Union

import tensorflow as tf

from determined.keras import _weights

logger = logging.getLogger("determined.keras")

STATE_FILE = "callback_state.json"


class DeterminedCallback(tf.keras.callbacks.Callback):  # type: ignore[misc]
    """A callback for `model.fit(callbacks=[...])`.

    `checkpoint` is the checkpoint to start from. If a run with the same `continue_id` saved it, training continues
    after the checkpoint's epoch. Otherwise only its weights are loaded. Use the trial's id as `continue_id`.
    """

    def __init__(
        self,
        core_context: Any,
        checkpoint: Optional[str],
        continue_id: Union[int, str, None],
        *,
        train_metrics_report_period: Union[int, str] = "epoch",
        checkpoint_epochs: int = 1,
    ) -> None:
        super().__init__()
        is_number = isinstance(train_metrics_report_period, int) and train_metrics_report_period > 0
        if train_metrics_report_period != "epoch" and not is_number:
            raise ValueError(
                "train_metrics_report_period must be 'epoch' or a number of batches, not "
                f"{train_metrics_report_period!r}"
            )
        if checkpoint_epochs < 0:
            raise ValueError("checkpoint_epochs must not be negative; 0 saves at the end only")
        self.core_context = core_context
        self.initial_epoch = 0
        self._checkpoint = checkpoint
        self._continue_id = continue_id
        self._report_period = train_metrics_report_period
        self._checkpoint_epochs = checkpoint_epochs
        self._is_chief = core_context.distributed.rank == 0
        self._batches = 0
        self._epochs = 0
        # The current or latest epoch. It counts from 1, as in reports.
        self._current_epoch = 0
        self._saved_at = -1
        self._restored = contextlib.ExitStack()
        self._validated_at = -1

    def save_model(self, model: Any, path: str, distributed: Any) -> None:
        """Save the model below a path in the checkpoint's directory. This runs on every worker.

        Override this method and `load_model` to save in another way. An override may create files that start with
        `path`, or a directory with that name.
        """
        _weights.save(model, path, distributed)

    def load_model(self, model: Any, path: str, distributed: Any) -> None:
        """Load the model from the path of `save_model`. The files exist until the first batch is trained."""
        _weights.load(model, path)

    def on_train_begin(self, logs: Optional[Dict[str, Any]] = None) -> None:
        self._status("training")
        if self._checkpoint is None:
            return
        restored = self.core_context.checkpoint.restore_path(self._checkpoint)
        self._restore(pathlib.Path(self._restored.enter_context(restored)))

    def on_epoch_begin(self, epoch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        self._current_epoch = epoch + 1

    def on_train_batch_end(self, batch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        # Keras creates some variables in the first batch, and loads their values only then.
        self._restored.close()
        self._batches += 1
        if self._report_period != "epoch" and self._batches % int(self._report_period) == 0:
            self._report_training(logs)

    def on_test_begin(self, logs: Optional[Dict[str, Any]] = None) -> None:
        self._status("validating")

    def on_test_end(self, logs: Optional[Dict[str, Any]] = None) -> None:
        # The cluster rejects a second report for the same batch with different metrics.
        if self._is_chief and self._validated_at != self._batches:
            self.core_context.train.report_validation_metrics(
                self._batches, {**_numbers(logs), **self._position()}
            )
        self._validated_at = self._batches
        self._status("training")

    def on_epoch_end(self, epoch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        self._epochs = epoch + 1
        if self._report_period == "epoch":
            self._report_training(logs)
        if self._is_chief and self.params.get("epochs"):
            self.core_context.train.report_progress(min(1.0, self._epochs / self.params["epochs"]))
        if self._checkpoint_epochs and self._epochs % self._checkpoint_epochs == 0:
            self._save()
        if self.core_context.preempt.should_preempt():
            logger.info("preempted after epoch %d", self._epochs)
            self.model.stop_training = True

    def on_train_end(self, logs: Optional[Dict[str, Any]] = None) -> None:
        self._restored.close()
        self._save()
        self._status("finishing")

    def _position(self) -> Dict[str, int]:
        return {"batches": self._batches, "epochs": self._current_epoch}

    def _report_training(self, logs: Optional[Mapping[str, Any]]) -> None:
        if self._is_chief:
            metrics = {n: v for n, v in _numbers(logs).items() if not n.startswith("val_")}
            self.core_context.train.report_training_metrics(
                self._batches, {**metrics, **self._position()}
            )

    def _save(self) -> None:
        if self._saved_at == self._batches:
            return
        self._status("checkpointing")
        distributed = self.core_context.distributed
        metadata = {"steps_completed": self._batches} if self._is_chief else {}
        shard = distributed.size > 1
        with self.core_context.checkpoint.store_path(metadata, shard=shard) as (path, _):
            self.save_model(self.model, str(pathlib.Path(path) / _weights.WEIGHTS), distributed)
            if self._is_chief:
                (pathlib.Path(path) / STATE_FILE).write_text(json.dumps(self._state()))
        self._saved_at = self._batches
        self._status("training")

    def _state(self) -> Dict[str, Any]:
        return {
            "continue_id": self._continue_id,
            "epochs": self._epochs,
            "batches": self._batches,
            "seeds": _weights.seeds(self.model),
        }

    def _restore(self, path: pathlib.Path) -> None:
        self.load_model(self.model, str(path / _weights.WEIGHTS), self.core_context.distributed)
        file = path / STATE_FILE
        state = json.loads(file.read_text()) if file.exists() else {}
        if state.get("continue_id") != self._continue_id or self._continue_id is None:
            logger.info("starting from the weights of checkpoint %s", self._checkpoint)
            return
        self._batches = self._saved_at = self._validated_at = state["batches"]
        self._epochs = self._current_epoch = self.initial_epoch = state["epochs"]
        _weights.set_seeds(self.model, state.get("seeds", []))
        start_at_epoch(self.model, self.initial_epoch)

    def _status(self, status: str) -> None:
        if self._is_chief:
            self.core_context.train.set_status(status)


class _ResumedEpoch:
    """A replacement for Keras 2's record of an interrupted fit."""

    def __init__(self, epoch: int) -> None:
        self._epoch = epoch

    def maybe_load_initial_epoch_from_ckpt(self, initial_epoch: int, mode: Any) -> int:
        return max(self._epoch, initial_epoch)

    def maybe_load_initial_counters_from_ckpt(
        self, steps: int, initial_epoch: int, mode: Any
    ) -> Any:
        return max(self._epoch, initial_epoch), 0


def start_at_epoch(model: Any, epoch: int) -> None:
    """Make the next `fit` skip epochs, as Keras's BackupAndRestore does."""
    if _weights.is_keras_3(model):
        model._initial_epoch = epoch
    else:
        model._training_state = _ResumedEpoch(epoch)


def _numbers(logs: Optional[Mapping[str, Any]]) -> Dict[str, float]:
    return {name: float(value) for name, value in (logs or {}).items()}
