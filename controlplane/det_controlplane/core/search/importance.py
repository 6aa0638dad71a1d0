"""The importance of hyperparameters: how much the best trials differ from all trials in one hyperparameter.

This is PED-ANOVA with histograms. It sees effects of every shape, because it compares densities and fits no line.
"""

import json
import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_TOP = 0.1  # The best trials are this fraction of all,
_FEW = 16  # or so many, if the fraction is smaller,
_MOST_OF_FEW = 0.25  # but never more than this fraction.
_BINS = 8  # A bin of the trials should contain at least two of the best ones by chance.
_PER_BIN = 2
# A difference counts if chance would seldom cause it: it exceeds its expected value by so many standard deviations.
_CLEAR = 2.5
FEWEST = 10  # trials
CLEAR_FROM = 16  # With fewer trials, even a perfect split of a number into two halves is not clear.


@dataclass(frozen=True, slots=True)
class ScoredTrial:
    hparams: Mapping[str, Any]
    loss: float


@dataclass(frozen=True, slots=True)
class Importance:
    """The share of a hyperparameter in all clear differences, from 0 to 1."""

    name: str
    share: float


@dataclass(frozen=True, slots=True)
class Importances:
    trials: int
    best: int  # the number of trials that are compared with all
    of: tuple[Importance, ...]  # the most important first


def importances(trials: Sequence[ScoredTrial]) -> Importances:
    """Return the importance of each hyperparameter that varies. All shares are 0 if no difference is clear."""
    scored = [trial for trial in trials if math.isfinite(trial.loss)]
    columns = _columns(scored)
    best = _best(scored)
    divergences = {name: _divergence(values, best) for name, values in columns.items()}
    total = sum(divergences.values())
    shares = [
        Importance(name, divergence / total if total else 0.0)
        for name, divergence in divergences.items()
    ]
    shares.sort(key=lambda entry: (-entry.share, entry.name))
    return Importances(len(scored), len(best), tuple(shares))


def _best(trials: Sequence[ScoredTrial]) -> list[int]:
    """Return the indices of the best trials. Trials that equal the last of them count too, unless these are most."""
    if len(trials) < FEWEST:
        return []
    count = max(math.ceil(_TOP * len(trials)), min(_FEW, int(_MOST_OF_FEW * len(trials))))
    cut = sorted(trial.loss for trial in trials)[count - 1]
    best = [index for index, trial in enumerate(trials) if trial.loss <= cut]
    return best if 2 * len(best) <= len(trials) else []


def _columns(trials: Sequence[ScoredTrial]) -> dict[str, list[Any]]:
    """Return the values of each hyperparameter with more than one value. None stands for a missing value."""
    flat = [dict(_leaves(trial.hparams)) for trial in trials]
    names = sorted({name for row in flat for name in row})
    columns = {name: [row.get(name) for row in flat] for name in names}
    return {
        name: values
        for name, values in columns.items()
        if any(value != values[0] for value in values)
    }


def _leaves(hparams: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    leaves: list[tuple[str, Any]] = []
    for name, value in hparams.items():
        if isinstance(value, Mapping) and value:
            leaves.extend(_leaves(value, f"{prefix}{name}."))
        else:
            leaves.append((f"{prefix}{name}", value))
    return leaves


def _divergence(values: Sequence[Any], best: Sequence[int]) -> float:
    """Return Pearson's divergence of the best trials from all trials, minus its expected value by chance.

    It is 0 unless the divergence is clear. The expectation is exact for a random choice of trials."""
    count, top = len(values), len(best)
    if not top:
        return 0.0
    bins = _bins(values, max(2, min(_BINS, top // _PER_BIN)))
    sizes = Counter(bins)
    of_best = Counter(bins[index] for index in best)
    divergence = sum(
        (of_best[bin] / top - size / count) ** 2 / (size / count) for bin, size in sizes.items()
    )
    freedom = len(sizes) - 1
    scale = (
        (count - top) / (count - 1) / top
    )  # of the divergence by chance, for each degree of freedom
    excess = divergence - freedom * scale
    return excess if excess > _CLEAR * math.sqrt(2 * freedom) * scale else 0.0


def _bins(values: Sequence[Any], count: int) -> list[Hashable]:
    """Return the bin of each value. Numbers have bins with equally many trials, other values one bin each."""
    numbers = [value for value in values if _is_number(value)]
    if len(set(numbers)) <= count:
        return [json.dumps(value, sort_keys=True, default=str) for value in values]
    ascending = sorted(numbers)
    edges = sorted({ascending[len(ascending) * part // count] for part in range(1, count)})
    return [_bin_of(value, edges) for value in values]


def _bin_of(value: Any, edges: Sequence[float]) -> Hashable:
    if not _is_number(value):
        return json.dumps(value, sort_keys=True, default=str)
    return bisect_right(edges, value)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value
