"""Stop trials with the packages of other libraries, if they are installed: ray[tune], optuna, syne-tune.

Each decides at the same rungs as the textbook forms in `search_peers.py`, and so verifies them.
"""

import importlib.util
from collections.abc import Callable
from datetime import datetime
from types import SimpleNamespace
from typing import Any

from bench.search_curves import FULL
from bench.search_peers import ETA, RUNGS, Rule, Trial


class RayTune(Rule):
    def __init__(self, brackets: int = 1) -> None:
        from ray.tune.schedulers import AsyncHyperBandScheduler

        self._scheduler = AsyncHyperBandScheduler(
            metric="loss", mode="min", max_t=FULL, grace_period=1, reduction_factor=ETA, brackets=brackets,
            stop_last_trials=False,
        )  # fmt: skip
        self._trials: dict[int, Any] = {}

    def continues(self, trial: Trial, rung: int, loss: float) -> bool:
        if trial.number not in self._trials:
            ray_trial = self._trials[trial.number] = SimpleNamespace(trial_id=str(trial.number))
            self._scheduler.on_trial_add(None, ray_trial)
        result = {"training_iteration": trial.length, "loss": loss}
        decision = self._scheduler.on_trial_result(None, self._trials[trial.number], result)
        return bool(decision == "CONTINUE")


class Optuna(Rule):
    def __init__(self, hyperband: bool) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        pruner = (
            optuna.pruners.HyperbandPruner(1, FULL, ETA)
            if hyperband
            else optuna.pruners.SuccessiveHalvingPruner(1, ETA)
        )
        sampler = optuna.samplers.RandomSampler(seed=0)
        self._pruned = optuna.trial.TrialState.PRUNED
        self._study = optuna.create_study(sampler=sampler, pruner=pruner)
        self._trials: dict[int, Any] = {}

    def continues(self, trial: Trial, rung: int, loss: float) -> bool:
        if trial.number not in self._trials:
            self._trials[trial.number] = self._study.ask()
        study_trial = self._trials[trial.number]
        study_trial.report(loss, trial.length)
        if not study_trial.should_prune():
            return True
        self._study.tell(study_trial, state=self._pruned)
        return False

    def ended(self, trial: Trial) -> None:
        if trial.number in self._trials:
            self._study.tell(self._trials[trial.number], 0.0)


class SyneTune(Rule):
    def __init__(self) -> None:
        from syne_tune.backend.trial_status import Trial as KnownTrial
        from syne_tune.config_space import uniform
        from syne_tune.optimizer.schedulers.asha import AsynchronousSuccessiveHalving

        self._known = KnownTrial
        self._scheduler = AsynchronousSuccessiveHalving(
            {"x": uniform(0, 1)}, metric="loss", time_attr="epoch", max_t=FULL, reduction_factor=ETA, random_seed=0
        )  # fmt: skip
        self._trials: dict[int, Any] = {}

    def continues(self, trial: Trial, rung: int, loss: float) -> bool:
        if trial.number not in self._trials:
            tune_trial = self._known(trial.number, {}, datetime.now())
            self._trials[trial.number] = tune_trial
            self._scheduler.on_trial_add(tune_trial)
        result = {"epoch": trial.length, "loss": loss}
        return bool(
            self._scheduler.on_trial_result(self._trials[trial.number], result) == "CONTINUE"
        )


_ALL: dict[str, tuple[str, Callable[[], Rule]]] = {
    "ray_package_asha": ("ray", RayTune),
    "ray_package_asha_3_brackets": ("ray", lambda: RayTune(3)),
    "optuna_package_halving": ("optuna", lambda: Optuna(hyperband=False)),
    "optuna_package_hyperband": ("optuna", lambda: Optuna(hyperband=True)),
    "syne_tune_package_asha": ("syne_tune", SyneTune),
}
assert RUNGS[-1] == FULL
PACKAGES: dict[str, Callable[[], Rule]] = {
    name: make for name, (package, make) in _ALL.items() if importlib.util.find_spec(package)
}
