"""The arithmetic of ASHA: the rungs, and the trials of each bracket (docs/concepts/search.md#rungs)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .method import MOST_AT_ONCE


@dataclass(frozen=True, slots=True)
class Bracket:
    rungs: int
    max_trials: int
    max_concurrent: int


def rung_units(num_rungs: int, max_time: float, divisor: float) -> list[int]:
    """Return the training length of each rung. The last rung is the whole training."""
    return [
        max(
            int(max_time / divisor ** (num_rungs - 1 - i)), 1
        )  # length 0 would judge untrained models
        for i in range(num_rungs)
    ]


def initial_trials(num_rungs: int, divisor: float, max_trials: int, max_concurrent: int) -> int:
    most = min(max_trials, MOST_AT_ONCE)
    if max_concurrent > 0:
        return min(max_concurrent, most)
    return min(max(int(divisor ** (num_rungs - 1)), 1), most)


def bracket_rungs(
    mode: str, max_rungs: int, max_time: float, divisor: float, max_trials: int
) -> list[int]:
    """Return the number of rungs of every bracket, the most aggressive bracket first."""
    highest = min(max_rungs, levels(max_time, divisor), levels(max_trials, divisor))
    lowest = {"aggressive": highest, "standard": (highest - 1) // 2 + 1, "conservative": 1}[mode]
    return list(range(highest, lowest - 1, -1))


def bracket_trials(max_trials: int, divisor: float, rungs: Sequence[int]) -> list[int]:
    """Divide trials so that all brackets train for about the same total length. The first gets the remainder."""
    rungs = rungs[:max_trials]
    weights = [divisor ** (count - 1) / count for count in rungs]
    shares = [max(int(weight / sum(weights) * max_trials), 1) for weight in weights]
    shares[0] += max(max_trials - sum(shares), 0)
    while sum(shares) > max_trials:  # brackets were rounded up to one trial
        shares[shares.index(max(shares))] -= 1
    return shares


def bracket_concurrency(max_concurrent: int, divisor: float, trials: Sequence[int]) -> list[int]:
    if max_concurrent == 0:
        most = max(MOST_AT_ONCE // len(trials), 1)
        return [min(max(trials[-1], int(divisor)), most)] * len(trials)
    each, extra = divmod(max(max_concurrent, len(trials)), len(trials))
    return [each + (1 if i < extra else 0) for i in range(len(trials))]


def make_brackets(
    rungs: Sequence[int], max_trials: int, max_concurrent: int, divisor: float
) -> list[Bracket]:
    trials = bracket_trials(max_trials, divisor, rungs)
    concurrency = bracket_concurrency(max_concurrent, divisor, trials)
    return [Bracket(*bracket) for bracket in zip(rungs, trials, concurrency, strict=False)]


def levels(total: float, divisor: float) -> int:
    """Return ⌊log_divisor(total)⌋ + 1. It is exact for powers, where the floating logarithm may be too small."""
    return int(math.log(total) / math.log(divisor) + 1e-9) + 1
