"""PyTorchTrial, the base class of users' trials."""

from typing import Any, Dict

from determined.pytorch._base_trial import BaseTorchTrial
from determined.pytorch._context import PyTorchTrialContext


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
