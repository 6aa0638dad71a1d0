import os
from typing import Any, Dict, Iterator, Optional, Union

from determined._trial import LegacyTrial
from determined.pytorch import _data
from determined.pytorch._callback import PyTorchCallback
from determined.pytorch._reducer import Reducer
from determined.pytorch.deepspeed._context import DeepSpeedTrialContext


class DeepSpeedTrial(LegacyTrial):
    """A DeepSpeed engine and how to train it on the next micro batch.

    `train_batch` takes what it needs from the iterator and moves it with `context.to_device`.
    """

    trial_context_class = DeepSpeedTrialContext

    def __init__(self, context: DeepSpeedTrialContext) -> None:
        super().__init__(context)

    def train_batch(
        self, dataloader_iter: Optional[Iterator[Any]], epoch_idx: int, batch_idx: int
    ) -> Any:
        """Train on one micro batch (or, with pipelines, one batch); return the loss or a dictionary."""
        raise NotImplementedError(f"{type(self).__name__} must define train_batch()")

    def build_training_data_loader(self) -> Any:
        """Batches of `context.get_train_micro_batch_size_per_gpu()` records; None where no data is needed."""
        raise NotImplementedError(f"{type(self).__name__} must define build_training_data_loader()")

    def build_validation_data_loader(self) -> Any:
        raise NotImplementedError(
            f"{type(self).__name__} must define build_validation_data_loader()"
        )

    def build_callbacks(self) -> Dict[str, PyTorchCallback]:
        return {}

    def evaluate_batch(
        self, dataloader_iter: Optional[Iterator[Any]], batch_idx: int
    ) -> Dict[str, Any]:
        """Return metrics of the next validation batch."""
        raise NotImplementedError(f"{type(self).__name__} must define evaluate_batch()")

    def evaluation_reducer(self) -> Union[Reducer, Dict[str, Reducer]]:
        return Reducer.AVG

    def evaluate_full_dataset(self, data_loader: Any) -> Dict[str, Any]:
        """Return metrics of the whole validation data; runs on the chief alone, instead of `evaluate_batch`."""
        raise NotImplementedError(f"{type(self).__name__} must define evaluate_full_dataset()")

    def save(self, context: DeepSpeedTrialContext, path: Any) -> None:
        """Write this rank's part of every engine; runs on all ranks."""
        for i, engine in enumerate(context.models):
            engine.save_checkpoint(os.fspath(path), tag=f"model{i}")

    def load(self, context: DeepSpeedTrialContext, load_path: Any) -> None:
        for i, engine in enumerate(context.models):
            found, _ = engine.load_checkpoint(os.fspath(load_path), tag=f"model{i}")
            if found is None:
                raise FileNotFoundError(
                    f"{load_path} holds no state for DeepSpeed engine {i} (model{i})"
                )

    def get_batch_length(self, batch: Any) -> int:
        return _data.data_length(batch)
