"""Stop trials by textbook forms of other libraries' rules, written from their documentation.

They are compared by decisions, not by speed: each sees the same curves, workers and budget as our searchers. If the
packages are installed, `search_packages.py` also runs the packages themselves.
"""

import heapq
import math
import random
from abc import ABC, abstractmethod
from bisect import insort
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from det_controlplane.core.search.rng import Rng
from det_controlplane.core.search.sampling import Sampler

from bench.search_curves import FULL, SPACE, Task

ETA = 3
RUNGS = [1, 3, 9, 27, 81]


@dataclass
class Trial:
    number: int
    hparams: Mapping[str, Any]
    seed: int
    length: int = 0
    bracket: int = 0
    recorded: set[int] = field(default_factory=set)


class Rule(ABC):
    """A rule that decides if a trial at a rung continues, from all results at that rung."""

    def bracket(self, draw: float) -> int:
        return 0

    @abstractmethod
    def continues(self, trial: Trial, rung: int, loss: float) -> bool: ...

    def ended(self, trial: Trial) -> None:  # noqa: B027
        """Record that a trial reached its full length."""


def _quantile(ascending: list[float], share: float) -> float:
    place = share * (len(ascending) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ascending) - 1)
    return ascending[low] + (ascending[high] - ascending[low]) * (place - low)


class RayAsha(Rule):
    """Compares with the quantile of the earlier results of the rung. The first trial always continues."""

    def __init__(self, brackets: int = 1) -> None:
        self._brackets = brackets
        self._seen: dict[tuple[int, int], list[float]] = {}

    def bracket(self, draw: float) -> int:
        sizes = [ETA ** (len(RUNGS) - s) / (len(RUNGS) - s) for s in range(self._brackets)]
        return _pick(sizes, draw)

    def continues(self, trial: Trial, rung: int, loss: float) -> bool:
        if rung < trial.bracket:
            return True
        losses = self._seen.setdefault((trial.bracket, rung), [])
        keep = not losses or loss <= _quantile(losses, 1 / ETA)
        insort(losses, loss)
        return keep


class SyneTuneAsha(Rule):
    """Compares with the quantile including the result itself, after a rung has as many results as the divisor."""

    def __init__(self) -> None:
        self._seen: dict[int, list[float]] = {}

    def continues(self, trial: Trial, rung: int, loss: float) -> bool:
        losses = self._seen.setdefault(rung, [])
        insort(losses, loss)
        return len(losses) < ETA or loss <= _quantile(losses, 1 / ETA)


class OptunaHalving(Rule):
    """Continues the best third of a rung, including the trial itself. The first trial of a rung always continues."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, int], list[float]] = {}

    def continues(self, trial: Trial, rung: int, loss: float) -> bool:
        if rung < trial.bracket:
            return True
        losses = self._seen.setdefault((trial.bracket, rung), [])
        insort(losses, loss)
        return loss <= losses[max(len(losses) // ETA - 1, 0)]


class OptunaHyperband(OptunaHalving):
    """Draws a bracket for each trial, weighted by Hyperband's budgets."""

    def bracket(self, draw: float) -> int:
        count = len(RUNGS)
        return _pick([math.ceil(count * ETA**s / (s + 1)) for s in reversed(range(count))], draw)


class RandomSearch(Rule):
    """Trains each trial to its full length."""

    def continues(self, trial: Trial, rung: int, loss: float) -> bool:
        return True


def _pick(weights: list[float], draw: float) -> int:
    mark = draw * sum(weights)
    for index, weight in enumerate(weights):
        mark -= weight
        if mark < 0:
            return index
    return len(weights) - 1


PEERS: dict[str, Callable[[], Rule]] = {
    "ray_asha": RayAsha,
    "ray_asha_3_brackets": lambda: RayAsha(3),
    "syne_tune_asha": SyneTuneAsha,
    "optuna_halving": OptunaHalving,
    "optuna_hyperband": OptunaHyperband,
    "random": RandomSearch,
}


def run_peer(
    rule: Rule,
    task: Task,
    workers: int,
    budget: float,
    observe: Callable[[float, Mapping[str, Any], float, float], None],
) -> None:
    """Run random samples under the rule. `observe(work, hparams, length, loss)` receives each report."""
    sampler, draws = Sampler(SPACE, Rng(task.seed)), random.Random(task.seed)
    busy: list[tuple[float, int, Trial]] = []
    started, work = 0, 0.0

    def start(now: float) -> None:
        nonlocal started
        create = sampler.create()
        bracket = rule.bracket(draws.random())
        trial = Trial(started, create.hparams, create.seed, bracket=bracket)
        started += 1
        heapq.heappush(busy, (now + RUNGS[0], started, trial))

    for _ in range(workers):
        start(0.0)
    while work < budget:
        now, order, trial = heapq.heappop(busy)
        rung = next(i for i, length in enumerate(RUNGS) if length > trial.length)
        work += RUNGS[rung] - trial.length
        trial.length = RUNGS[rung]
        loss = task.observed(trial.hparams, trial.seed, trial.length)
        observe(work, trial.hparams, trial.length, loss)
        if trial.length == FULL:
            rule.ended(trial)
        elif rule.continues(trial, rung, loss):
            report_at = now + RUNGS[rung + 1] - trial.length
            heapq.heappush(busy, (report_at, order, trial))
            continue
        start(now)
