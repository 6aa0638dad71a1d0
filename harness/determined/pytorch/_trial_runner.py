"""Runs a trial given by its class alone: `entrypoint: model_def:MyTrial`, `--trial model_def:MyTrial`."""

import contextlib
from typing import Any, Dict, Mapping, Optional, Type

from determined.errors import InvalidConfigurationException
from determined.pytorch import Trainer, TrainUnit, init
from determined.pytorch._remote import RemoteSource
from determined.pytorch._units import Batch, Epoch, unit_from_config
from determined.workloads import LocalSource, Plan, WorkloadSource

_UNITS_OF_TIME = {"batches": Batch, "epochs": Epoch}


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
        from determined.pytorch.deepspeed import _trial_runner as deepspeed_runner

        deepspeed_runner.run(trial_class, info)
    elif framework == "keras":
        from determined.keras import _trial_runner as keras_runner

        keras_runner.run(trial_class, info)
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
        trainer.fit(
            latest_checkpoint=info.latest_checkpoint,
            **fit_arguments(config, info.trial.hparams, context._core),
        )


class ClusterTrainer(Trainer):
    """A Trainer whose workloads the control plane hands out."""

    def _source(self, plan: Plan) -> WorkloadSource:
        return cluster_source(self._context, plan)


def cluster_source(context: Any, plan: Plan) -> WorkloadSource:
    """Only the chief asks, so only the chief needs a session."""
    local = LocalSource(plan)
    if context.distributed.rank != 0:
        return local
    from determined._task_session import task_session

    return RemoteSource(task_session(), context.get_trial_id(), local)


def fit_arguments(
    config: Mapping[str, Any], hparams: Mapping[str, Any], core_context: Any
) -> Dict[str, Any]:
    """The arguments of `fit` that an experiment configuration stands for."""
    batch_size = int(hparams.get("global_batch_size") or 0)

    def unit(length: Any) -> Optional[TrainUnit]:
        return unit_from_config(length, global_batch_size=batch_size)

    return {
        "max_length": max_length(config, unit, core_context),
        "validation_period": unit(config.get("min_validation_period")),
        "checkpoint_period": unit(config.get("min_checkpoint_period")),
        "reporting_period": Batch(int(config.get("scheduling_unit") or 100)),
        "checkpoint_policy": config.get("checkpoint_policy") or "best",
        "step_zero_validation": bool(config.get("perform_initial_validation")),
        "profiling_enabled": bool((config.get("profiling") or {}).get("enabled")),
    }


def max_length(config: Mapping[str, Any], unit: Any, core_context: Any) -> TrainUnit:
    """`searcher.max_length`; else the searcher's `max_time`; else the searcher's first operation."""
    searcher: Mapping[str, Any] = config.get("searcher") or {}
    found: Optional[TrainUnit] = unit(searcher.get("max_length"))
    kind = _UNITS_OF_TIME.get(str(searcher.get("time_metric")))
    if found is None and kind is not None and searcher.get("max_time"):
        found = kind(int(searcher["max_time"]))
    if found is None:
        found = _length_of_operation(core_context)
    if found is None:
        raise InvalidConfigurationException(
            "the experiment does not say how long to train: set searcher.max_length, for example "
            "{epochs: 10}, or call Trainer.fit(max_length=...) in a script of your own"
        )
    return found


def _length_of_operation(core_context: Any) -> Optional[TrainUnit]:
    from determined.errors import SearcherContextMissing

    with contextlib.suppress(SearcherContextMissing):
        operation = next(iter(core_context.searcher.operations()), None)
        return Batch(operation.length) if operation is not None and operation.length else None
    return None
