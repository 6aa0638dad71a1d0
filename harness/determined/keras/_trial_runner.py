"""Run a TFKerasTrial without a training script."""

from typing import Any, Dict, Type

import tensorflow as tf

from determined import _legacy_plan
from determined._trial_settings import TrialSettings, make_settings
from determined.keras._context import TFKerasTrialContext
from determined.keras._trainer import KerasTrainer
from determined.workloads import LocalSource, Plan


def run(trial_class: Type[Any], info: Any) -> None:
    from determined import core

    with core.init(preempt_mode=core.PreemptMode.ChiefOnly) as core_context:
        trainer = _trainer(trial_class, core_context, make_settings(core_context, None, None))
        context = trainer.context
        lengths = _legacy_plan.lengths(info.trial._config, info.trial.hparams, core_context)
        plan = lengths.plan(trainer.training.epoch_len)
        if lengths.profiling_enabled:
            core_context.profiler.on()
        source = _legacy_plan.cluster_source(context, plan)
        trainer.run(source, plan.max_batches, info.latest_checkpoint)


def test_one_batch(trial_class: Type[Any], hparams: Dict[str, Any], config: Dict[str, Any]) -> None:
    """Train, validate and save once, without a cluster."""
    from determined import core

    with core.init() as core_context:
        settings = make_settings(core_context, hparams, config)
        trainer = _trainer(trial_class, core_context, settings)
        trainer.context.validation_steps = 1
        plan = Plan(max_batches=1, checkpoint_policy="all")
        trainer.run(LocalSource(plan), plan.max_batches, None)


def _trainer(trial_class: Type[Any], core_context: Any, settings: TrialSettings) -> KerasTrainer:
    tf.keras.utils.set_random_seed(settings.trial_seed % 2**32)
    context = TFKerasTrialContext(core_context, settings)
    return KerasTrainer(trial_class(context), context)
