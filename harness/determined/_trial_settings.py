"""Settings of a trial's context, taken from the cluster or from the caller."""

import random
from dataclasses import dataclass
from typing import Any, Dict, Mapping, Optional

from determined._example_hparams import example
from determined._info import task_info


@dataclass(frozen=True)
class TrialSettings:
    """The settings of a trial's context."""

    trial_seed: int
    hparams: Dict[str, Any]
    exp_conf: Dict[str, Any]
    aggregation_frequency: int = 1
    average_aggregated_gradients: bool = True
    average_training_metrics: bool = True
    gradient_compression: bool = False
    managed: bool = False
    trial_id: Optional[int] = None
    experiment_id: Optional[int] = None
    enable_tensorboard_logging: bool = True
    searcher_metric: Optional[str] = None
    smaller_is_better: bool = True
    elastic_slots: Optional[int] = None  # the maximum of an elastic trial


def make_settings(
    core_context: Any,
    hparams: Optional[Dict[str, Any]],
    exp_conf: Optional[Dict[str, Any]],
    *,
    aggregation_frequency: int = 1,
    enable_tensorboard_logging: bool = True,
) -> TrialSettings:
    info = task_info()
    trial = info.trial if info is not None and info.task_type == "TRIAL" else None
    config = exp_conf if exp_conf is not None else (trial._config if trial else {})
    optimizations: Mapping[str, Any] = config.get("optimizations") or {}
    searcher: Mapping[str, Any] = config.get("searcher") or {}
    seed = trial.trial_seed if trial else _local_seed(core_context, config)
    return TrialSettings(
        trial_seed=seed,
        hparams=hparams if hparams is not None else (trial.hparams if trial else {}),
        exp_conf=config,
        aggregation_frequency=aggregation_frequency,
        average_aggregated_gradients=bool(optimizations.get("average_aggregated_gradients", True)),
        average_training_metrics=bool(optimizations.get("average_training_metrics", True)),
        gradient_compression=bool(optimizations.get("gradient_compression", False)),
        managed=trial is not None,
        trial_id=trial.trial_id if trial else None,
        experiment_id=trial.experiment_id if trial else None,
        enable_tensorboard_logging=enable_tensorboard_logging,
        searcher_metric=searcher.get("metric"),
        smaller_is_better=bool(searcher.get("smaller_is_better", True)),
        elastic_slots=_elastic_slots(config),
    )


def _elastic_slots(config: Mapping[str, Any]) -> Optional[int]:
    resources: Mapping[str, Any] = config.get("resources") or {}
    if resources.get("min_slots_per_trial") is None:
        return None
    return int(resources.get("slots_per_trial") or 1)


def local_settings(config: Mapping[str, Any]) -> TrialSettings:
    """Return the settings of a trial that runs on this machine alone, even if this process belongs to a task."""
    resources = {**(config.get("resources") or {}), "slots_per_trial": 1}
    searcher: Mapping[str, Any] = config.get("searcher") or {}
    return TrialSettings(
        trial_seed=int((config.get("reproducibility") or {}).get("experiment_seed") or 0),
        hparams=example(config.get("hyperparameters") or {}),
        exp_conf={"scheduling_unit": 100, **config, "resources": resources},
        searcher_metric=searcher.get("metric"),
        smaller_is_better=bool(searcher.get("smaller_is_better", True)),
    )


def _local_seed(core_context: Any, config: Mapping[str, Any]) -> int:
    """Return the configured seed, or a random seed from the chief. All ranks need the same seed to shuffle equally."""
    configured = (config.get("reproducibility") or {}).get("experiment_seed")
    if configured is not None:
        return int(configured)
    drawn: int = core_context.distributed.broadcast(random.SystemRandom().randrange(2**31))
    return drawn
