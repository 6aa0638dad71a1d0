"""PyTorchTrial, the base class of users' trials, and the base class that it shares with DeepSpeedTrial."""

from typing import Any, Dict, Union

from determined._trial import LegacyTrial
from determined.pytorch import _data
from determined.pytorch._callback import PyTorchCallback
from determined.pytorch._context import PyTorchTrialContext
from determined.pytorch._reducer import Reducer


class BaseTorchTrial(LegacyTrial):
    """The methods of a trial that do not depend on how a batch is trained."""

    def build_training_data_loader(self) -> Any:
        """Return the training data, usually as a `determined.pytorch.DataLoader`."""
        raise self._undefined("build_training_data_loader")

    def build_validation_data_loader(self) -> Any:
        """Return the validation data, usually as a `determined.pytorch.DataLoader`."""
        raise self._undefined("build_validation_data_loader")

    def build_callbacks(self) -> Dict[str, PyTorchCallback]:
        """Return callbacks by name. Checkpoints store their states under these names."""
        return {}

    def evaluation_reducer(self) -> Union[Reducer, Dict[str, Reducer]]:
        """Return how to reduce the metrics of `evaluate_batch`: one reducer for all, or a reducer for each name."""
        return Reducer.AVG

    def evaluate_full_dataset(self, data_loader: Any) -> Dict[str, Any]:
        """Return the metrics of all validation data. Define it instead of `evaluate_batch`; only the chief calls it."""
        raise self._undefined("evaluate_full_dataset")

    def get_batch_length(self, batch: Any) -> int:
        """Return the number of records in a batch. Override it for custom types of batches."""
        return _data.data_length(batch)

    def _undefined(self, method: str) -> NotImplementedError:
        return NotImplementedError(f"{type(self).__name__} must define {method}()")


class PyTorchTrial(BaseTorchTrial):
    """A model, and the code that trains it on a batch. The Trainer calls this code.

    The constructor wraps models, optimizers and schedulers in its context. Define `evaluate_batch`, or
    `evaluate_full_dataset` for metrics that need all validation data at once.
    """

    trial_context_class = PyTorchTrialContext

    def __init__(self, context: PyTorchTrialContext) -> None:
        super().__init__(context)

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
        """Train on one batch, which is on the device already. Return the loss or a dictionary of metrics.

        `batch_idx` counts over all epochs. Return tensors instead of numbers, to avoid waiting for the GPU.
        """
        raise self._undefined("train_batch")

    def evaluate_batch(self, batch: Any, batch_idx: int) -> Dict[str, Any]:
        """Return the metrics of one validation batch. `evaluation_reducer` reduces them over batches and slots."""
        raise self._undefined("evaluate_batch")


def overrides(trial: Any, base: type, name: str) -> bool:
    """Return whether the trial's class redefines a method of its base class."""
    method = getattr(trial, name)
    return getattr(method, "__func__", method) is not getattr(base, name)
