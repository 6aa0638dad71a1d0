"""What PyTorch and DeepSpeed trials share: configuration, place in training, device, TensorBoard."""

import logging
import pathlib
from dataclasses import dataclass, field
from typing import Any, Dict, Optional, Set

import torch

from determined.pytorch import _data
from determined.pytorch._reducer import ReducerContext

logger = logging.getLogger("determined.pytorch")


@dataclass(frozen=True)
class TrialSettings:
    """What a context is made of, whether it comes from a cluster or from the caller."""

    trial_seed: int
    hparams: Dict[str, Any]
    exp_conf: Dict[str, Any]
    aggregation_frequency: int = 1
    average_aggregated_gradients: bool = True
    average_training_metrics: bool = True
    mixed_precision: str = "O0"
    managed: bool = False
    trial_id: Optional[int] = None
    experiment_id: Optional[int] = None
    enable_tensorboard_logging: bool = True
    searcher_metric: Optional[str] = None
    smaller_is_better: bool = True


@dataclass
class Position:
    """Where training is. The Trainer writes it, once a batch; nothing else does."""

    batch: int = 0
    first_batch: int = 0
    epoch_len: Optional[int] = None
    epoch: int = 0
    # Where the running epoch began; with a loader of unknown length nothing else knows.
    epoch_start: int = 0
    training: bool = False
    warned_types: Set[type] = field(default_factory=set)


class BaseTrialContext(ReducerContext):
    def __init__(self, core_context: Any, settings: TrialSettings, device: torch.device) -> None:
        super().__init__()
        self._core = core_context
        self._settings = settings
        self.device = device
        self.distributed = core_context.distributed
        self._position = Position()
        self._stop_requested = False
        self._tensorboard_logging = settings.enable_tensorboard_logging
        self._tensorboard_writer: Optional[Any] = None
        self._reproducibility_checks = True

    def to_device(self, data: Any) -> Any:
        """Move a batch (tensors in dictionaries, lists and tuples) to this slot's device."""
        return _data.to_device(data, self.device, self._position.warned_types)

    def get_hparams(self) -> Dict[str, Any]:
        return self._settings.hparams

    def get_hparam(self, name: str) -> Any:
        try:
            return self._settings.hparams[name]
        except KeyError:
            known = ", ".join(sorted(self._settings.hparams)) or "none"
            raise ValueError(f"there is no hyperparameter {name!r} (there are: {known})") from None

    def get_experiment_config(self) -> Dict[str, Any]:
        return self._settings.exp_conf

    def get_data_config(self) -> Dict[str, Any]:
        """The `data` section of the experiment configuration."""
        return dict(self._settings.exp_conf.get("data") or {})

    def get_experiment_id(self) -> int:
        return int(self._managed("experiment_id"))

    def get_trial_id(self) -> int:
        return int(self._managed("trial_id"))

    def get_trial_seed(self) -> int:
        return self._settings.trial_seed

    def get_global_batch_size(self) -> int:
        """The hyperparameter `global_batch_size`."""
        return int(self.get_hparam("global_batch_size"))

    def get_per_slot_batch_size(self) -> int:
        """`global_batch_size` divided by the number of slots."""
        size = int(self.distributed.size)
        per_slot = self.get_global_batch_size() // size
        if per_slot < 1:
            raise ValueError(
                f"global_batch_size {self.get_global_batch_size()} is less than one record for each of {size} slots"
            )
        return per_slot

    def get_initial_batch(self) -> int:
        """The number of batches that were trained before this run."""
        return self._position.first_batch

    def current_train_batch(self) -> int:
        """The index of the batch being trained, counted over all epochs."""
        return self._position.batch

    def current_train_epoch(self) -> int:
        return self._position.epoch

    def is_epoch_start(self) -> bool:
        """Whether the current batch is the first of its epoch."""
        at = self._position
        return at.batch == at.epoch_start

    def is_epoch_end(self) -> bool:
        """Whether the current batch is the last of its epoch."""
        at = self._position
        return at.epoch_len is not None and at.batch == at.epoch_start + at.epoch_len - 1

    def get_stop_requested(self) -> bool:
        return self._stop_requested

    def set_stop_requested(self, stop_requested: bool) -> None:
        """Ask (on any rank) to save a checkpoint and stop at the end of the current reporting period."""
        if not isinstance(stop_requested, bool):
            raise TypeError(f"stop_requested must be a boolean, not {stop_requested!r}")
        self._stop_requested = stop_requested

    def set_enable_tensorboard_logging(self, enable_tensorboard_logging: bool) -> None:
        if not isinstance(enable_tensorboard_logging, bool):
            raise TypeError(f"expected a boolean, not {enable_tensorboard_logging!r}")
        self._tensorboard_logging = enable_tensorboard_logging

    def get_enable_tensorboard_logging(self) -> bool:
        return self._tensorboard_logging

    def get_tensorboard_path(self) -> pathlib.Path:
        """The directory whose TensorBoard files are uploaded while the trial runs."""
        return pathlib.Path(self._core.train.get_tensorboard_path())

    def get_tensorboard_writer(self) -> Any:
        """A torch.utils.tensorboard.SummaryWriter on that directory; needs the tensorboard package."""
        if self._tensorboard_writer is None:
            from torch.utils.tensorboard import SummaryWriter

            self._tensorboard_writer = SummaryWriter(log_dir=str(self.get_tensorboard_path()))
        return self._tensorboard_writer

    def _managed(self, name: str) -> Any:
        value = getattr(self._settings, name)
        if value is None:
            raise RuntimeError(f"there is no {name}: this trial runs outside of a cluster")
        return value


class BaseExperimentalContext:
    """`context.experimental`: switches that may change."""

    def __init__(self, context: BaseTrialContext) -> None:
        self._context = context

    def disable_dataset_reproducibility_checks(self) -> None:
        """Allow torch's own data loaders; sharding them and resuming in them become yours."""
        self._context._reproducibility_checks = False


def choose_device(local_rank: int) -> torch.device:
    """This slot's accelerator, or the CPU."""
    if torch.cuda.is_available():
        index = local_rank % torch.cuda.device_count()
        torch.cuda.set_device(index)
        return torch.device("cuda", index)
    return torch.device("cpu")
