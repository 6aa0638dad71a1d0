"""Optuna's samplers and pruners on LCBench (see lcbench_peers.py)."""

from typing import Any

from bench.lcbench_curves import FULL
from bench.lcbench_peers import Job, Package, Verdict


class OptunaStudy:
    """A study whose trials report each epoch to its pruner."""

    def __init__(self, sampler: Any, pruner: Any) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._pruned = optuna.trial.TrialState.PRUNED
        self._study = optuna.create_study(sampler=sampler, pruner=pruner)
        self._trials: dict[int, Any] = {}

    def next_job(self) -> Job:
        trial = self._study.ask()
        self._trials[trial.number] = trial
        return Job(trial.number, _suggest(trial))

    def report(self, trial: int, epoch: int, loss: float) -> Verdict:
        running = self._trials[trial]
        running.report(loss, epoch)
        if epoch == FULL:
            self._study.tell(running, loss)
        elif running.should_prune():
            self._study.tell(running, state=self._pruned)
        else:
            return Verdict.CONTINUE
        del self._trials[trial]
        return Verdict.STOP


def _suggest(trial: Any) -> dict[str, Any]:
    return {
        "batch_size": trial.suggest_int("batch_size", 16, 512, log=True),
        "learning_rate": trial.suggest_float("learning_rate", 1e-4, 0.1, log=True),
        "momentum": trial.suggest_float("momentum", 0.1, 0.99),
        "weight_decay": trial.suggest_float("weight_decay", 1e-5, 0.1),
        "num_layers": trial.suggest_int("num_layers", 1, 5),
        "max_units": trial.suggest_int("max_units", 64, 1024, log=True),
        "max_dropout": trial.suggest_float("max_dropout", 0.0, 1.0),
    }


def _tpe(seed: int) -> OptunaStudy:
    import optuna

    sampler = optuna.samplers.TPESampler(multivariate=True, constant_liar=True, seed=seed)
    return OptunaStudy(sampler, optuna.pruners.HyperbandPruner(1, FULL, 3))


def _gp(seed: int) -> OptunaStudy:
    import optuna
    import torch

    torch.set_num_threads(1)
    return OptunaStudy(optuna.samplers.GPSampler(seed=seed), optuna.pruners.NopPruner())


PACKAGES = {
    "Optuna TPE, Hyperband": Package("optuna", _tpe, ("optuna",)),
    "Optuna GP, full trainings": Package("optuna", _gp, ("optuna", "torch")),
}
