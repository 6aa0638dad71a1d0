"""Runs a trial given by its class alone: `entrypoint: model_def:MyTrial`, `--trial model_def:MyTrial`."""

from typing import Any, Type

from determined import _legacy_plan
from determined.errors import InvalidConfigurationException
from determined.pytorch import Trainer, init
from determined.workloads import Plan, WorkloadSource


def run(trial_class: Type[Any]) -> int:
    """Train `trial_class` as the experiment configuration says; in each rank. Returns the exit code."""
    from determined import get_cluster_info

    info = get_cluster_info()
    if info is None:
        raise RuntimeError(
            "a trial class runs by itself only on a cluster; off-cluster use Trainer.fit() in a script, or "
            "`det experiment create --local --test-mode`"
        )
    _run_by_framework(trial_class, info)
    return 0


def _run_by_framework(trial_class: Type[Any], info: Any) -> None:
    framework = framework_of(trial_class)
    if framework == "deepspeed":
        from determined.pytorch.deepspeed._trial_runner import run as run_deepspeed

        run_deepspeed(trial_class, info)
    elif framework == "keras":
        from determined.keras._trial_runner import run as run_keras

        run_keras(trial_class, info)
    else:
        _run_pytorch(trial_class, info)


def framework_of(trial_class: Type[Any]) -> str:
    """By the names of its bases: importing a framework only to ask would need it installed."""
    names = {f"{base.__module__}.{base.__qualname__}" for base in trial_class.__mro__}
    if any(n.startswith("determined.pytorch.deepspeed.") for n in names):
        return "deepspeed"
    if any(n.startswith("determined.keras.") for n in names):
        return "keras"
    if any(n.startswith("determined.pytorch.") for n in names):
        return "pytorch"
    raise InvalidConfigurationException(
        f"{trial_class.__name__} is no trial class: it must derive from PyTorchTrial, DeepSpeedTrial or TFKerasTrial"
    )


def _run_pytorch(trial_class: Type[Any], info: Any) -> None:
    config = info.trial._config
    optimizations = config.get("optimizations") or {}
    frequency = int(optimizations.get("aggregation_frequency") or 1)
    with init(aggregation_frequency=frequency) as context:
        trial = trial_class(context)
        trainer = ClusterTrainer(trial, context)
        lengths = _legacy_plan.lengths(config, info.trial.hparams, context._core)
        trainer.fit(latest_checkpoint=info.latest_checkpoint, **lengths.fit_arguments())


class ClusterTrainer(Trainer):
    """A Trainer whose workloads the control plane hands out."""

    def _source(self, plan: Plan) -> WorkloadSource:
        return _legacy_plan.cluster_source(self._context, plan)
