"""Compare the best trials after a number of full trainings, with equal curves, workers and budget for all methods."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from det_controlplane.core.search import SimulatedTrial, simulate

from bench.search_curves import FAMILIES, FULL, SPACE, Task
from bench.search_packages import PACKAGES
from bench.search_peers import PEERS, run_peer

WORKERS = 8
MARKS = (10, 25, 50, 100)  # full trainings

_ASHA = {
    "metric": "loss",
    "time_metric": "epochs",
    "max_time": FULL,
    "divisor": 3,
    "max_trials": 1_000_000,
    "max_concurrent_trials": WORKERS,
}
_PROMOTION = {"max_length": {"epochs": FULL}, "time_metric": None, "max_time": None}
OURS: dict[str, Mapping[str, Any]] = {
    "async_halving": {**_ASHA, "name": "async_halving", "num_rungs": 5},
    "async_halving_promotion": {**_ASHA, **_PROMOTION, "name": "async_halving", "num_rungs": 5},
    "adaptive_asha": {**_ASHA, "name": "adaptive_asha", "mode": "standard"},
    "local_asha": {**_ASHA, "name": "local_asha", "num_rungs": 5},
    "local_asha_promotion": {**_ASHA, **_PROMOTION, "name": "local_asha", "num_rungs": 5},
}
RULES = {**PEERS, **PACKAGES}


@dataclass
class Incumbent:
    """The best report at the longest length so far, judged by its loss without noise."""

    task: Task
    length: float = 0.0
    loss: float = math.inf
    regret: float = math.inf

    def see(self, hparams: Mapping[str, Any], length: float, loss: float) -> None:
        if (-length, loss) < (-self.length, self.loss):
            self.length, self.loss = length, loss
            self.regret = self.task.regret(hparams, FULL)


def regrets(method: str, family: str, seed: int) -> list[float]:
    """Return the regret of one run at each mark."""
    task = Task(family, seed)
    incumbent = Incumbent(task)
    marks: list[float] = []

    def observe(work: float, hparams: Mapping[str, Any], length: float, loss: float) -> None:
        while len(marks) < len(MARKS) and work > MARKS[len(marks)] * FULL:
            marks.append(incumbent.regret)
        incumbent.see(hparams, length, loss)

    budget = MARKS[-1] * FULL
    if method in RULES:
        run_peer(RULES[method](), task, WORKERS, budget, observe)
    else:
        _run_ours(OURS[method], task, budget, observe)
    return [*marks, *[incumbent.regret] * (len(MARKS) - len(marks))]


Observe = Callable[[float, Mapping[str, Any], float, float], None]


def _run_ours(searcher: Mapping[str, Any], task: Task, budget: float, observe: Observe) -> None:
    def seen(work: float, trial: SimulatedTrial) -> None:
        assert trial.metric is not None
        observe(work, trial.create.hparams, trial.length, trial.metric)

    simulate(searcher, SPACE, task.seed, task.observed, WORKERS, budget, seen)


@dataclass
class Quality:
    method: str
    means: list[float]  # at each mark
    errors: list[float]
    by_family: dict[str, float]  # at the last mark


def compare(methods: Sequence[str], seeds: Sequence[int], processes: int) -> list[Quality]:
    with ProcessPoolExecutor(processes) as pool:
        return [_quality(method, seeds, pool) for method in methods]


def _quality(method: str, seeds: Sequence[int], pool: ProcessPoolExecutor) -> Quality:
    families = [family for family in FAMILIES for _ in seeds]
    run = partial(regrets, method)
    rows = list(pool.map(run, families, list(seeds) * len(FAMILIES), chunksize=2))
    columns = list(zip(*rows, strict=True))
    by_family = {
        family: statistics.fmean(
            row[-1] for row, of in zip(rows, families, strict=True) if of == family
        )
        for family in FAMILIES
    }
    return Quality(
        method,
        [statistics.fmean(column) for column in columns],
        [statistics.stdev(column) / math.sqrt(len(column)) for column in columns],
        by_family,
    )
