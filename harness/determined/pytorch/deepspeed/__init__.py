"""Train with DeepSpeed: define a DeepSpeedTrial, and its Trainer runs it. This needs the package deepspeed."""

from determined.pytorch.deepspeed._config import (
    get_ds_config_from_args,
    overwrite_deepspeed_config,
)
from determined.pytorch.deepspeed._context import (
    DeepSpeedTrialContext,
    ModelParallelUnit,
    make_data_parallel_mpu,
    make_deepspeed_mpu,
)
from determined.pytorch.deepspeed._init import init
from determined.pytorch.deepspeed._trainer import Trainer
from determined.pytorch.deepspeed._trial import DeepSpeedTrial

__all__ = [
    "DeepSpeedTrial",
    "DeepSpeedTrialContext",
    "ModelParallelUnit",
    "Trainer",
    "get_ds_config_from_args",
    "init",
    "make_data_parallel_mpu",
    "make_deepspeed_mpu",
    "overwrite_deepspeed_config",
]
