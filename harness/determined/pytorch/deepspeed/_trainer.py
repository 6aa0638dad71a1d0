from typing import Any

from determined.pytorch._trainer import Trainer as PyTorchTrainer
from determined.pytorch.deepspeed._context import DeepSpeedTrialContext
from determined.pytorch.deepspeed._steps import DeepSpeedSteps
from determined.pytorch.deepspeed._trial import DeepSpeedTrial


class Trainer(PyTorchTrainer):
    """Trains a DeepSpeedTrial. `fit` is inherited from determined.pytorch.Trainer."""

    trial_class = DeepSpeedTrial
    steps_class: Any = DeepSpeedSteps

    def __init__(self, trial: DeepSpeedTrial, context: DeepSpeedTrialContext) -> None:
        super().__init__(trial, context)
