"""Train PyTorch models: define a PyTorchTrial, and a Trainer runs it on any number of slots."""

from determined._units import Batch, Epoch, TrainUnit
from determined.pytorch import samplers
from determined.pytorch._callback import PyTorchCallback
from determined.pytorch._context import PyTorchExperimentalContext, PyTorchTrialContext
from determined.pytorch._data import DataLoader, TorchData, data_length, to_device
from determined.pytorch._init import init
from determined.pytorch._load import CheckpointLoadContext, load_trial_from_checkpoint_path
from determined.pytorch._lr_scheduler import LRScheduler
from determined.pytorch._parallel import FSDP
from determined.pytorch._reducer import MetricReducer, Reducer
from determined.pytorch._state import UntrustedCheckpointError
from determined.pytorch._trainer import Trainer
from determined.pytorch._trial import PyTorchTrial
from determined.pytorch.samplers import adapt_batch_sampler

__all__ = [
    "FSDP",
    "Batch",
    "CheckpointLoadContext",
    "DataLoader",
    "Epoch",
    "LRScheduler",
    "MetricReducer",
    "PyTorchCallback",
    "PyTorchExperimentalContext",
    "PyTorchTrial",
    "PyTorchTrialContext",
    "Reducer",
    "TorchData",
    "TrainUnit",
    "Trainer",
    "UntrustedCheckpointError",
    "adapt_batch_sampler",
    "data_length",
    "init",
    "load_trial_from_checkpoint_path",
    "samplers",
    "to_device",
]
