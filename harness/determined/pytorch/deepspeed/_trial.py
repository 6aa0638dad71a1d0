import os
from typing import Any, Dict, Iterator, Optional

from determined.pytorch._trial import BaseTorchTrial
from determined.pytorch.deepspeed._context import DeepSpeedTrialContext


class DeepSpeedTrial(BaseTorchTrial):
    """A DeepSpeed engine, and the code that trains it on the next micro batch.

    `train_batch` reads its data from the iterator and moves it with `context.to_device`.
    """

    trial_context_class = DeepSpeedTrialContext

    def __init__(self, context: DeepSpeedTrialContext) -> None:
        super().__init__(context)

    def train_batch(
        self, dataloader_iter: Optional[Iterator[Any]], epoch_idx: int, batch_idx: int
    ) -> Any:
        """Train on one micro batch, or on one batch with pipelines. Return the loss or a dictionary of metrics."""
        raise self._undefined("train_batch")

    def build_training_data_loader(self) -> Any:
        """Return batches of `context.get_train_micro_batch_size_per_gpu()` records, or None if no data is needed."""
        raise self._undefined("build_training_data_loader")

    def evaluate_batch(
        self, dataloader_iter: Optional[Iterator[Any]], batch_idx: int
    ) -> Dict[str, Any]:
        """Return the metrics of the next validation batch."""
        raise self._undefined("evaluate_batch")

    def save(self, context: DeepSpeedTrialContext, path: Any) -> None:
        """Write this rank's part of every engine. All ranks call it."""
        for i, engine in enumerate(context.models):
            engine.save_checkpoint(os.fspath(path), tag=f"model{i}")

    def load(self, context: DeepSpeedTrialContext, load_path: Any) -> None:
        for i, engine in enumerate(context.models):
            loaded_path, _ = engine.load_checkpoint(os.fspath(load_path), tag=f"model{i}")
            if loaded_path is None:
                raise FileNotFoundError(
                    f"{load_path} has no state for DeepSpeed engine {i} (model{i})"
                )
