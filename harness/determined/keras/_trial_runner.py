"""Runs a TFKerasTrial given by its class alone."""

from typing import Any, Type

import tensorflow as tf

from determined import _legacy_plan
from determined._trial_settings import make_settings
from determined.keras._context import TFKerasTrialContext
from determined.keras._trainer import KerasTrainer


def run(trial_class: Type[Any], info: Any) -> None:
    from determined import core

    with core.init(preempt_mode=core.PreemptMode.ChiefOnly) as core_context:
        settings = make_settings(core_context, None, None)
        tf.keras.utils.set_random_seed(settings.trial_seed % 2**32)
        context = TFKerasTrialContext(core_context, settings)
        trainer = KerasTrainer(trial_class(context), context)
        lengths = _legacy_plan.lengths(info.trial._config, info.trial.hparams, core_context)
        plan = lengths.plan(trainer.training.epoch_len)
        source = _legacy_plan.cluster_source(context, plan)
        trainer.run(source, plan.max_batches, info.latest_checkpoint)
