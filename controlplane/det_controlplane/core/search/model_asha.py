"""`model_asha`: ASHA with a Gaussian process that decides which trial trains next: a new one, or one that waits.

See docs/concepts/search.md#model_asha. bench/search_lcbench.py compares it with other methods.
"""

import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar

from .actions import Create
from .ending import Ending
from .expected_gain import GainModel, GainWatch, improvement
from .gaussian_process import GaussianProcess
from .local_asha import neighbour_of
from .rng import Rng
from .rung import pack, unpack
from .sampling import Proposal, Sampler
from .surrogate import Observations, Surrogate
from .unit_cube import decode, encode, leaves_of

_RANDOM_TRIALS = 8  # The model is used after so many observations.
_RANDOM = (
    0.05  # Later, this fraction of the trials is still random, so the search can leave an optimum.
)
_PARENTS = 8
_WAITING = 12  # candidates among the waiting trials
_RANK_PRESSURE = 2  # The rank of a parent is uniform ** this, so the best are chosen most often.
_NEIGHBOURS = 48  # candidates near the parents
_ANYWHERE = 12  # candidates from the whole space
_WEIGHED = (
    16  # The variance is computed for so many candidates of each kind, the best predicted ones.
)
_ROUND_GROWTH = 50  # After each 50 observations, a round of the model makes one more decision.
_PENDING = 16  # The model assumes its prediction for so many trials without an observation.

Waits = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class _Decision:
    point: list[float]
    waiting: str | None = None  # the trial to continue; None: create a trial


@dataclass(frozen=True, slots=True)
class _Weighed:
    improvement: float  # in the model's units
    gain: float  # in units of the metric
    decision: _Decision


class ModelProposal(Proposal):
    """Choose the trials with the largest expected improvement at the last rung."""

    considered: ClassVar[int] = _WAITING

    def __init__(self, sampler: Sampler, num_rungs: int, least_gain: float | None = None) -> None:
        """Make a proposal that ends the search when its expected gain is below `least_gain`."""
        super().__init__(sampler)
        self._watch = GainWatch(least_gain)
        self._leaves = leaves_of(sampler.space)
        self._surrogate = Surrogate(self._leaves, num_rungs)
        self._observations = Observations()
        self._points: dict[str, list[float]] = {}  # of open trials
        self._pending: dict[str, None] = {}  # open trials without an observation, oldest first
        self._decisions: list[_Decision] = []  # of the latest round, not used yet

    def create(self) -> Create:
        if self._learned() and self._sampler.rng.uniform() >= _RANDOM:
            decision = self._decide(lambda request_id: False)
            hparams = decode(self._sampler.space, self._leaves, decision.point)
            create = self._sampler.create(hparams)
        else:
            create = self._sampler.create()
        self._points[create.request_id] = encode(self._leaves, create.hparams)
        self._pending[create.request_id] = None
        return create

    def resume(self, waits: Waits) -> str | None:
        if not self._learned():
            return None
        decision = self._decide(waits)
        if decision.waiting is None:
            self._decisions.insert(0, decision)  # `create` follows
        return decision.waiting

    def choose(self, waiting: Sequence[str]) -> str:
        if len(waiting) == 1 or not self._learned():
            return waiting[0]
        model = self._surrogate.model(self._observations.window())
        return min(waiting, key=lambda request_id: self._mean(model, self._points[request_id]))

    def record(self, request_id: str, rung: int, loss: float) -> None:
        self._pending.pop(request_id, None)
        comparable = loss if math.isfinite(loss) else math.inf
        self._observations.add(comparable, rung, request_id, self._points[request_id])

    def forget(self, request_id: str) -> None:
        self._points.pop(request_id, None)
        self._pending.pop(request_id, None)
        self._observations.remove(request_id)

    def close(self, request_id: str) -> None:
        if request_id in self._pending:
            self.record(request_id, 0, math.inf)  # The trial failed, and its neighbours may too.
        self._points.pop(request_id, None)

    def expected_gain(self) -> float | None:
        return self._watch.expected()

    def ending(self) -> Ending | None:
        return self._watch.ending()

    def snapshot(self) -> dict[str, Any]:
        return {
            "gain": self._watch.snapshot(),
            "observations": self._observations.snapshot(),
            "surrogate": self._surrogate.snapshot(),
            "points": {request_id: pack(point) for request_id, point in self._points.items()},
            "pending": list(self._pending),
            "decisions": [[pack(entry.point), entry.waiting] for entry in self._decisions],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        if "gain" in state:  # snapshots of earlier versions have none
            self._watch.restore(state["gain"])
        self._observations.restore(state["observations"])
        self._surrogate.restore(state["surrogate"])
        self._points = {request_id: unpack(point) for request_id, point in state["points"].items()}
        self._pending = dict.fromkeys(state["pending"])
        self._decisions = [
            _Decision(unpack(point), waiting) for point, waiting in state["decisions"]
        ]

    def _learned(self) -> bool:
        return bool(self._leaves) and self._observations.size() >= _RANDOM_TRIALS

    def _decide(self, waits: Waits) -> _Decision:
        """Return the next decision. Decisions for trials that ended or continued meanwhile are dropped."""
        while True:
            if not self._decisions:
                self._decisions = self._round(waits, 1 + self._observations.count // _ROUND_GROWTH)
            decision = self._decisions.pop(0)
            waiting = decision.waiting
            if waiting is None or (waiting in self._points and waits(waiting)):
                return decision

    def _round(self, waits: Waits, count: int) -> list[_Decision]:
        """Return the decisions with the largest expected improvement, the best first."""
        window = self._observations.window()
        model = self._surrogate.fit(window)
        gain_model = GainModel(model, [entry.loss for entry in window])
        known = {entry.request_id: entry.point for entry in window}
        means = {request_id: self._mean(model, point) for request_id, point in known.items()}
        ranked = sorted(known, key=means.__getitem__)
        parents = [known[request_id] for request_id in ranked[:_PARENTS]]
        waiting = [rid for rid in ranked if rid in self._points and waits(rid)]
        for request_id in islice(reversed(self._pending), _PENDING):
            first = self._surrogate.at(self._points[request_id], rung=0)
            model.add(first, model.mean(model.covariances(first)))
        rng, best = self._sampler.rng, means[ranked[0]]
        near = [self._neighbour(parents, rng) for _ in range(max(_NEIGHBOURS, 3 * count))]
        anywhere = [self._snap([rng.uniform() for _ in self._leaves]) for _ in range(_ANYWHERE)]
        pending = [self._points[request_id] for request_id in self._pending]
        seen = {tuple(point) for point in (*known.values(), *pending)}
        near, anywhere = _unseen(near, seen), _unseen(anywhere, seen)
        # The model predicts the mean far from all observations. Predictions near the parents would displace it.
        pools = (
            [_Decision(point) for point in near],
            [_Decision(point) for point in anywhere],
            [_Decision(known[request_id], request_id) for request_id in waiting[:_WAITING]],
        )
        weighed = [
            entry for pool in pools for entry in self._weigh(model, gain_model, best, pool, count)
        ]
        if gain_model.known:
            self._watch.add(max(entry.gain for entry in weighed), self._observations.count)
        weighed.sort(key=lambda entry: entry.improvement, reverse=True)
        return [entry.decision for entry in weighed[:count]]

    def _weigh(
        self,
        model: GaussianProcess,
        gain_model: GainModel,
        best: float,
        candidates: Sequence[_Decision],
        count: int,
    ) -> list[_Weighed]:
        """Return the expected improvement on `best` of the candidates with the best predictions."""
        predicted = []
        for candidate in candidates:
            covariances = model.covariances(self._surrogate.at(candidate.point))
            predicted.append((model.mean(covariances), covariances, candidate))
        predicted.sort(key=lambda entry: entry[0])
        weighed = []
        for mean, covariances, candidate in predicted[: max(_WEIGHED, count)]:
            variance = model.unit_variance(covariances)
            expected = improvement(best - mean, math.sqrt(variance * model.scale()))
            weighed.append(_Weighed(expected, gain_model.gain(covariances, variance), candidate))
        return weighed

    def _mean(self, model: GaussianProcess, point: Sequence[float]) -> float:
        return model.mean(model.covariances(self._surrogate.at(point)))

    def _neighbour(self, parents: Sequence[list[float]], rng: Rng) -> list[float]:
        parent = parents[int(len(parents) * rng.uniform() ** _RANK_PRESSURE)]
        return self._snap(neighbour_of(self._leaves, parent, rng))

    def _snap(self, point: Sequence[float]) -> list[float]:
        """Return the point with equal coordinates for equal integers and categories."""
        return encode(self._leaves, decode(self._sampler.space, self._leaves, point))


def _unseen(points: list[list[float]], seen: Set[tuple[float, ...]]) -> list[list[float]]:
    """Return the points that no trial has, or all points if there are none. Categories often repeat."""
    return [point for point in points if tuple(point) not in seen] or points
