"""The common context of PyTorch and DeepSpeed trials, with position, device and TensorBoard."""

import logging
import pathlib
from dataclasses import dataclass, field
from typing import Any, Optional, Set

import torch

from determined._trial import TrialContext
from determined._trial_settings import TrialSettings
from determined.pytorch import _data
from determined.pytorch._reducer import ReducerContext

__all__ = ["BaseExperimentalContext", "BaseTrialContext", "TrialSettings", "choose_device"]

logger = logging.getLogger("determined.pytorch")


@dataclass
class Position:
    """The position in training. Only the Trainer changes it, once for each batch."""

    batch: int = 0
    first_batch: int = 0
    epoch_len: Optional[int] = None
    epoch: int = 0
    # The first batch of the current epoch. It cannot be computed if the loader's length is unknown.
    epoch_start: int = 0
    training: bool = False
    warned_types: Set[type] = field(default_factory=set)


class BaseTrialContext(TrialContext, ReducerContext):
    def __init__(self, core_context: Any, settings: TrialSettings, device: torch.device) -> None:
        TrialContext.__init__(self, core_context, settings)
        ReducerContext.__init__(self)
        self.device = device
        self._position = Position()
        self._tensorboard_logging = settings.enable_tensorboard_logging
        self._tensorboard_writer: Optional[Any] = None
        self._reproducibility_checks = True
        self._move = _data.mover(device, self._position.warned_types)

    @classmethod
    def _on_this_machine(cls, core_context: Any, settings: TrialSettings) -> Any:
        return cls(core_context, settings, choose_device(0))

    def to_device(self, data: Any) -> Any:
        """Move a batch (tensors in dictionaries, lists and tuples) to this slot's device."""
        return self._move(data)

    def get_initial_batch(self) -> int:
        """Return the number of batches that earlier runs trained."""
        return self._position.first_batch

    def current_train_batch(self) -> int:
        """Return the index of the current batch, counted over all epochs."""
        return self._position.batch

    def current_train_epoch(self) -> int:
        return self._position.epoch

    def is_epoch_start(self) -> bool:
        """Return whether the current batch is the first of its epoch."""
        at = self._position
        return at.batch == at.epoch_start

    def is_epoch_end(self) -> bool:
        """Return whether the current batch is the last of its epoch."""
        at = self._position
        return at.epoch_len is not None and at.batch == at.epoch_start + at.epoch_len - 1

    def set_enable_tensorboard_logging(self, enable_tensorboard_logging: bool) -> None:
        if not isinstance(enable_tensorboard_logging, bool):
            raise TypeError(f"expected a boolean, not {enable_tensorboard_logging!r}")
        self._tensorboard_logging = enable_tensorboard_logging

    def get_enable_tensorboard_logging(self) -> bool:
        return self._tensorboard_logging

    def get_tensorboard_path(self) -> pathlib.Path:
        """Return the directory for TensorBoard files. Its files are uploaded while the trial runs."""
        return pathlib.Path(self._core.train.get_tensorboard_path())

    def get_tensorboard_writer(self) -> Any:
        """Return a torch.utils.tensorboard.SummaryWriter for that directory. It needs the tensorboard package."""
        if self._tensorboard_writer is None:
            from torch.utils.tensorboard import SummaryWriter

            self._tensorboard_writer = SummaryWriter(log_dir=str(self.get_tensorboard_path()))
        return self._tensorboard_writer


class BaseExperimentalContext:
    """`context.experimental`, with options that may change."""

    def __init__(self, context: BaseTrialContext) -> None:
        self._context = context

    def disable_dataset_reproducibility_checks(self) -> None:
        """Allow torch's own data loaders. Your code must then shard and resume them."""
        self._context._reproducibility_checks = False


def choose_device(local_rank: int) -> torch.device:
    """Return this slot's accelerator, or the CPU."""
    if torch.cuda.is_available():
        index = local_rank % torch.cuda.device_count()
        torch.cuda.set_device(index)
        return torch.device("cuda", index)
    return torch.device("cpu")
