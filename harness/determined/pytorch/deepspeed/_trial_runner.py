"""Run a DeepSpeedTrial without a training script."""

from typing import Any, Type

from determined import _legacy_plan
from determined.pytorch.deepspeed import Trainer, init
from determined.workloads import Plan, WorkloadSource


class ClusterTrainer(Trainer):
    def _source(self, plan: Plan) -> WorkloadSource:
        return _legacy_plan.cluster_source(self._context, plan)


def run(trial_class: Type[Any], info: Any) -> None:
    with init() as context:
        trainer = ClusterTrainer(trial_class(context), context)
        lengths = _legacy_plan.lengths(info.trial._config, info.trial.hparams, context._core)
        trainer.fit(latest_checkpoint=info.latest_checkpoint, **lengths.fit_arguments())
