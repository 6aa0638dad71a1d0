"""Optuna's samplers and pruners on LCBench, with asynchronous workers (see search_lcbench.py)."""

import heapq
import importlib.util
from collections.abc import Callable, Mapping
from typing import Any

Study = Callable[[int], Any]  # seed -> optuna.Study
Error = Callable[[Mapping[str, Any], int], float]  # of hyperparameters after an epoch
Observe = Callable[[float, Mapping[str, Any], float], None]


def _tpe(seed: int) -> Any:
    import optuna

    sampler = optuna.samplers.TPESampler(multivariate=True, constant_liar=True, seed=seed)
    return optuna.create_study(sampler=sampler, pruner=optuna.pruners.HyperbandPruner(1, 52, 3))


def _gp(seed: int) -> Any:
    import optuna

    sampler = optuna.samplers.GPSampler(seed=seed)
    return optuna.create_study(sampler=sampler, pruner=optuna.pruners.HyperbandPruner(1, 52, 3))


def studies() -> dict[str, Study]:
    """Return the studies that the installed packages allow. The Gaussian process of Optuna needs PyTorch."""
    found: dict[str, Study] = {"Optuna TPE + Hyperband": _tpe}
    if importlib.util.find_spec("torch"):
        found["Optuna GP + Hyperband"] = _gp
    return found


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


def run(
    study_of: Study,
    seed: int,
    workers: int,
    full: int,
    budget: float,
    error: Error,
    observe: Observe,
) -> None:
    """Train trials epoch by epoch until the budget is used. Each epoch is reported to the pruner."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = study_of(seed)
    pruned = optuna.trial.TrialState.PRUNED
    busy: list[tuple[int, int, Any, dict[str, Any], int]] = []
    started, work = 0, 0

    def start(now: int) -> None:
        nonlocal started
        trial = study.ask()
        started += 1
        heapq.heappush(busy, (now + 1, started, trial, _suggest(trial), 1))

    for _ in range(workers):
        start(0)
    while work < budget:
        now, order, trial, hparams, epoch = heapq.heappop(busy)
        work += 1
        loss = error(hparams, epoch)
        observe(work, hparams, epoch)
        trial.report(loss, epoch)
        if epoch == full:
            study.tell(trial, loss)
            start(now)
        elif trial.should_prune():
            study.tell(trial, state=pruned)
            start(now)
        else:
            heapq.heappush(busy, (now + 1, order, trial, hparams, epoch + 1))
