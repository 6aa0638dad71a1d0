"""Create seeded families of learning curves over one hyperparameter space, each with its own difficulty.

A family and a seed determine a task: the place of the optimum, the hyperparameters that matter, and the speed of
trials. Each curve is a function of the hyperparameters. Neighbours in the space are alike, unless a family is
different.
"""

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from det_controlplane.core.hparams import Categorical, Double, Int, Log, Space
from det_controlplane.core.search.rng import Rng
from det_controlplane.core.search.sampling import Sampler

FULL = 81  # units of one full training

SPACE: Space = {
    "activation": Categorical(("relu", "gelu", "tanh")),
    "dropout": Double(0.0, 0.6),
    "learning_rate": Log(-5.0, -1.0, 10.0),
    "momentum": Double(0.5, 0.99),
    "weight_decay": Log(-6.0, -2.0, 10.0),
    "width": Int(16, 512),
}

Point = list[float]  # coordinates in [0, 1), in the order of the names


def coordinates(hparams: Mapping[str, Any]) -> Point:
    return [
        (hparams["dropout"]) / 0.6,
        (math.log10(hparams["learning_rate"]) + 5) / 4,
        (hparams["momentum"] - 0.5) / 0.49,
        (math.log10(hparams["weight_decay"]) + 6) / 4,
        (hparams["width"] - 16) / 497,
    ]


@dataclass
class Task:
    """A task with known curves: `loss` has no noise, and a trial reports `observed`."""

    family: str
    seed: int

    def __post_init__(self) -> None:
        rng = random.Random(f"{self.family}:{self.seed}")
        self._shape = FAMILIES[self.family](rng)
        self._noise = 0.06 if self.family == "noisy" else 0.01

    def loss(self, hparams: Mapping[str, Any], length: float) -> float:
        return self._shape(coordinates(hparams), hparams["activation"], length)

    def observed(self, hparams: Mapping[str, Any], trial_seed: int, length: float) -> float:
        noise = random.Random(trial_seed * 131 + int(length)).gauss(0, self._noise)
        return self.loss(hparams, length) + noise

    @cached_property
    def scale(self) -> tuple[float, float]:
        """Return the best known final loss, and the median loss of random trials."""
        sampler = Sampler(SPACE, Rng(self.seed + 1))
        losses = sorted(
            (self.loss(h, FULL), i, h) for i in range(2000) for h in [sampler.hparams()]
        )
        best = min(self._polish(dict(hparams)) for _, _, hparams in losses[:3])
        return best, losses[len(losses) // 2][0]

    def regret(self, hparams: Mapping[str, Any], length: float) -> float:
        best, median = self.scale
        return (self.loss(hparams, length) - best) / (median - best)

    def _polish(self, hparams: dict[str, Any]) -> float:
        """Descend from a good point, so that the best known loss is not only the luckiest sample."""
        rng = random.Random(self.seed)
        best, step = self.loss(hparams, FULL), 0.2
        for _ in range(400):
            candidate = dict(hparams)
            _nudge(candidate, rng, step)
            loss = self.loss(candidate, FULL)
            if loss < best:
                best, hparams = loss, candidate
            else:
                step = max(step * 0.985, 0.002)
        return best


def _nudge(hparams: dict[str, Any], rng: random.Random, step: float) -> None:
    for name, hparam in SPACE.items():
        if isinstance(hparam, Categorical) or rng.random() < 0.4:
            continue
        move = rng.gauss(0, step)
        if isinstance(hparam, Log):
            exponent = math.log10(hparams[name]) + move * (hparam.maxval - hparam.minval)
            hparams[name] = 10 ** min(max(exponent, hparam.minval), hparam.maxval)
        elif isinstance(hparam, (Double, Int)):
            value = hparams[name] + move * (hparam.maxval - hparam.minval)
            value = min(max(value, hparam.minval), hparam.maxval)
            hparams[name] = round(value) if isinstance(hparam, Int) else value


Shape = Callable[[Point, str, float], float]


def _bowl(rng: random.Random, weights: Point | None = None) -> Callable[[Point, str], float]:
    centre = [0.15 + 0.7 * rng.random() for _ in range(5)]
    weight = weights or [1.0, 3.0, 0.7, 0.8, 0.5]
    penalty = {"relu": 0.0, "gelu": 0.03 * rng.random(), "tanh": 0.15 * rng.random()}
    tilt = rng.uniform(-0.8, 0.8) * math.sqrt(
        weight[1] * weight[2]
    )  # learning rate and momentum compensate each other

    def depth(point: Point, activation: str) -> float:
        gaps = [x - c for x, c in zip(point, centre, strict=True)]
        square = sum(w * gap * gap for w, gap in zip(weight, gaps, strict=True))
        return math.sqrt(max(square + tilt * gaps[1] * gaps[2], 0.0)) * 0.9 + penalty[activation]

    return depth


def _power(rng: random.Random) -> Shape:
    """Return curves that fall like a power of training. Their order hardly changes."""
    depth, speed = _bowl(rng), 0.5 + 0.3 * rng.random()
    return lambda p, a, t: depth(p, a) + (0.3 + 0.4 * p[3]) * math.pow(t, -speed)


def _cross(rng: random.Random) -> Shape:
    """Return curves that cross: trials that learn fast end high, and the final order appears late."""
    depth = _bowl(rng)

    def loss(p: Point, a: str, t: float) -> float:
        speed = 0.25 + 0.9 * p[1]
        return depth(p, a) + 1.2 * math.pow(t, -speed)

    return loss


def _basins(rng: random.Random) -> Shape:
    """Return curves over several valleys. The widest is not the deepest."""
    valleys = [
        ([rng.random() for _ in range(5)], 0.25 + 0.35 * rng.random(), 0.12 * i) for i in range(6)
    ]
    speed = 0.6

    def loss(p: Point, a: str, t: float) -> float:
        depth = min(
            floor + 1 - math.exp(-sum((x - c) ** 2 for x, c in zip(p, centre, strict=True)) / width)
            for centre, width, floor in valleys
        )
        return depth + (0.05 if a == "tanh" else 0.0) + 0.5 * math.pow(t, -speed)

    return loss


def _few_matter(rng: random.Random) -> Shape:
    """Return curves that depend on two of the hyperparameters. The others mislead."""
    weights = [0.01] * 5
    for index in rng.sample(range(5), 2):
        weights[index] = 3.0
    depth = _bowl(rng, weights)
    return lambda p, a, t: depth(p, a) + 0.5 * math.pow(t, -0.6)


def _rugged(rng: random.Random) -> Shape:
    """Return curves that are unrelated between neighbours: no method can learn here, and no method should get worse."""
    key = rng.getrandbits(32)

    def loss(p: Point, a: str, t: float) -> float:
        luck = random.Random(f"{key}{a}{[round(x, 6) for x in p]}").random()
        return luck + 0.5 * math.pow(t, -0.6)

    return loss


def _cliff(rng: random.Random) -> Shape:
    """Return curves that diverge late at learning rates just above the best."""
    depth, edge = _bowl(rng), 0.55 + 0.3 * rng.random()

    def loss(p: Point, a: str, t: float) -> float:
        beyond = max(p[1] - edge, 0.0)
        slow = abs(edge - p[1]) * 1.5
        return 0.5 * depth(p, a) + slow + 0.5 * math.pow(t, -0.5) + beyond * 0.2 * math.pow(t, 0.7)

    return loss


FAMILIES: dict[str, Callable[[random.Random], Shape]] = {
    "power": _power,
    "cross": _cross,
    "basins": _basins,
    "few_matter": _few_matter,
    "rugged": _rugged,
    "cliff": _cliff,
    "noisy": _power,
}
