"""The Trainer of a DeepSpeedTrial, in a training script or without one."""

from typing import Any, Type

from determined import _legacy_plan
from determined.pytorch._trainer import Trainer as PyTorchTrainer
from determined.pytorch.deepspeed._context import DeepSpeedTrialContext
from determined.pytorch.deepspeed._init import init
from determined.pytorch.deepspeed._steps import DeepSpeedSteps
from determined.pytorch.deepspeed._trial import DeepSpeedTrial
from determined.workloads import Plan, WorkloadSource


class Trainer(PyTorchTrainer):
    """Trains a DeepSpeedTrial. `fit` is inherited from determined.pytorch.Trainer."""

    trial_class = DeepSpeedTrial
    steps_class: Any = DeepSpeedSteps

    def __init__(self, trial: DeepSpeedTrial, context: DeepSpeedTrialContext) -> None:
        super().__init__(trial, context)


class ClusterTrainer(Trainer):
    """A Trainer that gets its workloads from the control plane."""

    def _source(self, plan: Plan) -> WorkloadSource:
        return _legacy_plan.cluster_source(self._context, plan)


def train_on_cluster(trial_class: Type[Any], info: Any) -> None:
    with init() as context:
        trainer = ClusterTrainer(trial_class(context), context)
        lengths = _legacy_plan.lengths(info.trial._config, info.trial.hparams, context._core)
        trainer.fit(latest_checkpoint=info.latest_checkpoint, **lengths.fit_arguments())
