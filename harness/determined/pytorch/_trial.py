"""PyTorchTrial: the class that users write."""

from typing import Any, Dict

from determined.pytorch._base_trial import BaseTorchTrial
from determined.pytorch._context import PyTorchTrialContext


class PyTorchTrial(BaseTorchTrial):
    """Defines a model and how to train it on a batch. The Trainer does the rest.

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
        raise self._undefined("train_batch")

    def evaluate_batch(self, batch: Any, batch_idx: int) -> Dict[str, Any]:
        """Return metrics of one validation batch, reduced over batches and slots by `evaluation_reducer`."""
        raise self._undefined("evaluate_batch")


def overrides(trial: Any, base: type, name: str) -> bool:
    """Return whether the trial's class redefines a method of its base class."""
    method = getattr(trial, name)
    return getattr(method, "__func__", method) is not getattr(base, name)
