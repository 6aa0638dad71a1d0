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
from .expected_gain import GainWatch, improvement
from .gaussian_process import GaussianProcess, Prediction
from .local_asha import neighbour_of
from .observations import Observation, Observations, losses_at_last_rung
from .rung import pack, unpack
from .sampling import Proposal, Sampler
from .surrogate import Surrogate, scale_of
from .unit_cube import decode, encode, leaves_of

_RANDOM_TRIALS = 8  # The model is used after so many observations.
_RANDOM = 0.05  # Later, this fraction of trials is random, so the search can leave an optimum.
_PARENTS = 8
_WAITING = 12  # candidates among the waiting trials
_RANK_PRESSURE = 2  # The rank of a parent is uniform ** this, so the best are chosen most often.
_NEIGHBOURS = 48  # candidates near the parents
_ALTERNATIVES = 8  # The next round considers so many candidates again that were not chosen.
_HILL_CLIMBERS = 32  # candidates near these
_ANYWHERE = 64  # candidates from the whole space
_WEIGHED_NEAR, _WEIGHED_ANYWHERE = 20, 12  # The variance is computed for the best predicted ones.
_ROUND_GROWTH = 50  # After each 50 observations, a round of the model makes one more decision.
_PENDING = 16  # The model assumes its prediction for so many trials without an observation.

Waits = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class _Decision:
    point: list[float]
    waiting: str | None = None  # the trial to continue; None: create a trial


@dataclass(frozen=True, slots=True)
class _Candidate:
    decision: _Decision
    prediction: Prediction
    rung: int  # the next rung of its trial
    remaining: float  # the fraction of a full training that it needs


class ModelProposal(Proposal):
    """Choose the trials with the largest expected improvement at the last rung."""

    has_model: ClassVar[bool] = True
    considered: ClassVar[int] = _WAITING

    def __init__(
        self, sampler: Sampler, num_rungs: int, divisor: float, least_gain: float | None = None
    ) -> None:
        """Make a proposal that ends the search when its expected gain is below `least_gain`."""
        super().__init__(sampler)
        self._remaining = [1.0, *(1 - divisor**-left for left in range(num_rungs - 1, 0, -1))]
        self._trained = 0.0  # full trainings
        self._watch = GainWatch(least_gain)
        self._leaves = leaves_of(sampler.space)
        self._surrogate = Surrogate(self._leaves, num_rungs)
        self._observations = Observations()
        self._points: dict[str, list[float]] = {}  # of open trials
        self._pending: dict[str, None] = {}  # open trials without an observation, oldest first
        self._alternatives: list[list[float]] = []  # points
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
        return min(
            waiting, key=lambda request_id: self._predict(model, self._points[request_id]).mean
        )

    def record(self, request_id: str, rung: int, loss: float) -> None:
        self._pending.pop(request_id, None)
        self._trained += self._remaining[rung] - sum(self._remaining[rung + 1 : rung + 2])
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
            "trained": self._trained,
            "gain": self._watch.snapshot(),
            "observations": self._observations.snapshot(),
            "surrogate": self._surrogate.snapshot(),
            "points": {request_id: pack(point) for request_id, point in self._points.items()},
            "pending": list(self._pending),
            "alternatives": [pack(point) for point in self._alternatives],
            "decisions": [[pack(entry.point), entry.waiting] for entry in self._decisions],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        self._trained = state.get("trained", 0.0)  # Earlier versions did not store all of these.
        if "gain" in state:
            self._watch.restore(state["gain"])
        self._observations.restore(state["observations"])
        self._surrogate.restore(state["surrogate"])
        self._points = {request_id: unpack(point) for request_id, point in state["points"].items()}
        self._pending = dict.fromkeys(state["pending"])
        self._alternatives = [unpack(point) for point in state.get("alternatives", ())]
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
        """Return the decisions with the largest expected improvement for their remaining training.

        Each decision assumes that the earlier ones have their expected results, so that they are not alike."""
        window = self._observations.window()
        model = self._surrogate.fit(window)
        scale = model.scale()
        known = {entry.request_id: entry for entry in window}  # the highest rung of each trial
        means = {rid: self._predict(model, entry.point).mean for rid, entry in known.items()}
        ranked = [known[request_id] for request_id in sorted(known, key=means.__getitem__)]
        best = means[ranked[0].request_id]
        for request_id in islice(reversed(self._pending), _PENDING):
            model.assume(self._surrogate.at(self._points[request_id], 0))
        waiting = [e for e in ranked if e.request_id in self._points and waits(e.request_id)]
        candidates = self._candidates(model, ranked, waiting[:_WAITING])

        def expected(candidate: _Candidate) -> float:
            prediction = candidate.prediction
            deviation = math.sqrt(prediction.variance * scale)
            return improvement(best - prediction.mean, deviation)

        def efficiency(candidate: _Candidate) -> float:
            return expected(candidate) / candidate.remaining

        best_loss, spread = scale_of(losses_at_last_rung(window))
        if math.isfinite(best_loss):
            gain = spread * max(map(expected, candidates))
            best_seen = self._observations.best_loss()
            self._watch.add(gain, best_seen, self._trained, self._observations.count)
        decisions: list[_Decision] = []
        while candidates and len(decisions) < count:
            chosen = max(candidates, key=efficiency)
            candidates.remove(chosen)
            decisions.append(chosen.decision)
            at = self._surrogate.at(chosen.decision.point, chosen.rung)
            model.assume(at, [candidate.prediction for candidate in candidates])
        candidates.sort(key=efficiency, reverse=True)
        points = [c.decision.point for c in candidates if c.decision.waiting is None]
        self._alternatives = points[:_ALTERNATIVES]
        return decisions

    def _candidates(
        self,
        model: GaussianProcess,
        ranked: Sequence[Observation],
        waiting: Sequence[Observation],
    ) -> list[_Candidate]:
        rng, alternatives = self._sampler.rng, self._alternatives
        parents = [entry.point for entry in ranked[:_PARENTS]]
        near = [self._neighbour(parents) for _ in range(_NEIGHBOURS)]
        if alternatives:
            near += [self._neighbour(alternatives) for _ in range(_HILL_CLIMBERS)]
            near += alternatives
        anywhere = [self._snap([rng.uniform() for _ in self._leaves]) for _ in range(_ANYWHERE)]
        pending = [self._points[request_id] for request_id in self._pending]
        seen = {tuple(point) for point in (*(entry.point for entry in ranked), *pending)}
        # The model predicts the mean far from all observations. Predictions near the parents would displace it.
        return [
            *self._best_new(model, _unseen(near, seen), _WEIGHED_NEAR),
            *self._best_new(model, _unseen(anywhere, seen), _WEIGHED_ANYWHERE),
            *(self._waiting(model, entry) for entry in waiting),
        ]

    def _best_new(
        self, model: GaussianProcess, points: Sequence[list[float]], count: int
    ) -> list[_Candidate]:
        """Return new trials with the best predictions."""
        candidates = [
            _Candidate(_Decision(point), self._predict(model, point), 0, self._remaining[0])
            for point in points
        ]
        candidates.sort(key=lambda candidate: candidate.prediction.mean)
        for candidate in candidates[:count]:
            model.weigh(candidate.prediction)
        return candidates[:count]

    def _waiting(self, model: GaussianProcess, entry: Observation) -> _Candidate:
        """Return a trial that can continue from its checkpoint."""
        rung = entry.rung + 1
        prediction = model.weigh(self._predict(model, entry.point))
        decision = _Decision(entry.point, entry.request_id)
        return _Candidate(decision, prediction, rung, self._remaining[rung])

    def _predict(self, model: GaussianProcess, point: Sequence[float]) -> Prediction:
        return model.predict(self._surrogate.at(point))

    def _neighbour(self, parents: Sequence[list[float]]) -> list[float]:
        rng = self._sampler.rng
        parent = parents[int(len(parents) * rng.uniform() ** _RANK_PRESSURE)]
        return self._snap(neighbour_of(self._leaves, parent, rng))

    def _snap(self, point: Sequence[float]) -> list[float]:
        """Return the point with equal coordinates for equal integers and categories."""
        return encode(self._leaves, decode(self._sampler.space, self._leaves, point))


def _unseen(points: list[list[float]], seen: Set[tuple[float, ...]]) -> list[list[float]]:
    """Return the points that no trial has, or all points if there are none. Categories often repeat."""
    return [point for point in points if tuple(point) not in seen] or points
