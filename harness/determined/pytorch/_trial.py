"""PyTorchTrial: the class that users write."""

from typing import Any, Dict, Union

from determined._trial import LegacyTrial
from determined.pytorch import _data
from determined.pytorch._callback import PyTorchCallback
from determined.pytorch._context import PyTorchTrialContext
from determined.pytorch._reducer import Reducer


class PyTorchTrial(LegacyTrial):
    """A model and how to train it on one batch. The Trainer does the rest.

    The constructor wraps models, optimizers and schedulers in the context it is given. Define
    `evaluate_batch`, or `evaluate_full_dataset` for metrics that need all the data at once.
    """

    trial_context_class = PyTorchTrialContext

    def __init__(self, context: PyTorchTrialContext) -> None:
        super().__init__(context)

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
        """Train on one batch (already on the device); return the loss or a dictionary of metrics.

        `batch_idx` counts over all epochs. Return tensors rather than numbers: they need no waiting for the GPU.
        """
        raise NotImplementedError(f"{type(self).__name__} must define train_batch()")

    def build_training_data_loader(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define build_training_data_loader()")

    def build_validation_data_loader(self) -> Any:
        raise NotImplementedError(
            f"{type(self).__name__} must define build_validation_data_loader()"
        )

    def build_callbacks(self) -> Dict[str, PyTorchCallback]:
        return {}

    def evaluate_batch(self, batch: Any, batch_idx: int) -> Dict[str, Any]:
        """Return metrics of one validation batch, reduced over batches and slots by `evaluation_reducer`."""
        raise NotImplementedError(f"{type(self).__name__} must define evaluate_batch()")

    def evaluation_reducer(self) -> Union[Reducer, Dict[str, Reducer]]:
        """Return how the metrics of `evaluate_batch` are reduced: one reducer for all, or one for each by name."""
        return Reducer.AVG

    def evaluate_full_dataset(self, data_loader: Any) -> Dict[str, Any]:
        """Return metrics of the whole validation data; runs on the chief alone, instead of `evaluate_batch`."""
        raise NotImplementedError(f"{type(self).__name__} must define evaluate_full_dataset()")

    def get_batch_length(self, batch: Any) -> int:
        """Return the number of records in a batch of a kind of your own."""
        return _data.data_length(batch)


def overrides(trial: Any, base: type, name: str) -> bool:
    """Return whether the trial's class redefines a method of its base class."""
    method = getattr(trial, name)
    return getattr(method, "__func__", method) is not getattr(base, name)
