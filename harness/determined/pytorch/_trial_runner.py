"""Run a PyTorchTrial without a training script: `entrypoint: model_def:MyTrial`, or `--trial model_def:MyTrial`."""

from typing import Any, Type

from determined import _legacy_plan
from determined.pytorch import Trainer, init
from determined.workloads import Plan, WorkloadSource


def run(trial_class: Type[Any], info: Any) -> None:
    config = info.trial._config
    optimizations = config.get("optimizations") or {}
    frequency = int(optimizations.get("aggregation_frequency") or 1)
    with init(aggregation_frequency=frequency) as context:
        trial = trial_class(context)
        trainer = ClusterTrainer(trial, context)
        lengths = _legacy_plan.lengths(config, info.trial.hparams, context._core)
        trainer.fit(latest_checkpoint=info.latest_checkpoint, **lengths.fit_arguments())


class ClusterTrainer(Trainer):
    """A Trainer that gets its workloads from the control plane."""

    def _source(self, plan: Plan) -> WorkloadSource:
        return _legacy_plan.cluster_source(self._context, plan)
