"""Syne Tune's schedulers on LCBench (see lcbench_peers.py). Version 0.14 removed PASHA and DyHPO."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from bench.lcbench_curves import FULL
from bench.lcbench_peers import Job, Package, Verdict


class SyneTune:
    """A scheduler that starts, pauses, continues and stops trials."""

    def __init__(self, scheduler: Any) -> None:
        self._scheduler = scheduler
        self._trials: dict[int, Any] = {}
        self._trained: dict[int, int] = {}

    def next_job(self) -> Job:
        from syne_tune.backend.trial_status import Trial

        suggestion = self._scheduler.suggest(len(self._trials))
        if suggestion.spawn_new_trial_id:
            number, config = len(self._trials), suggestion.config
            self._trials[number] = trial = Trial(number, config, datetime.now())
            self._trained[number] = 0
            self._scheduler.on_trial_add(trial)
            return Job(number, config)
        number = suggestion.checkpoint_trial_id
        return Job(number, self._trials[number].config, self._trained[number])

    def report(self, trial: int, epoch: int, loss: float) -> Verdict:
        self._trained[trial] = epoch
        result = {"epoch": epoch, "error": loss}
        decision = self._scheduler.on_trial_result(self._trials[trial], result)
        if epoch == FULL:
            self._scheduler.on_trial_complete(self._trials[trial], result)
            return Verdict.STOP
        if decision == "CONTINUE":
            return Verdict.CONTINUE
        self._scheduler.on_trial_remove(self._trials[trial])
        return Verdict(decision.lower())


def _maker(name: str, **options: Any) -> Callable[[int], SyneTune]:
    def make(seed: int) -> SyneTune:
        import logging

        from syne_tune import config_space
        from syne_tune.optimizer import baselines

        logging.disable(logging.WARNING)
        space = {
            "batch_size": config_space.lograndint(16, 512),
            "learning_rate": config_space.loguniform(1e-4, 0.1),
            "momentum": config_space.uniform(0.1, 0.99),
            "weight_decay": config_space.uniform(1e-5, 0.1),
            "num_layers": config_space.randint(1, 5),
            "max_units": config_space.lograndint(64, 1024),
            "max_dropout": config_space.uniform(0.0, 1.0),
        }
        scheduler = getattr(baselines, name)(
            space,
            "error",
            resource_attr="epoch",
            max_t=FULL,
            mode="min",
            random_seed=seed,
            **options,
        )
        return SyneTune(scheduler)

    return make


# By default, DyHPO fits its model again for every suggestion, which takes seconds in a long search.
_SELDOM_FITS = {"opt_skip_init_length": 50, "opt_skip_period": 25}

PACKAGES = {
    "Syne Tune PASHA": Package("syne-tune", _maker("PASHA"), ("syne-tune",)),
    "Syne Tune BOHB": Package("syne-tune", _maker("BOHB"), ("syne-tune",)),
    "Syne Tune DyHPO": Package(
        "syne-tune", _maker("DyHPO", search_options=_SELDOM_FITS), ("syne-tune",)
    ),
}
