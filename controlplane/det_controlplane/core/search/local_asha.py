"""`local_asha`: most new trials are neighbours of the best trials so far. Rungs compare recent trials only.

bench/search.py measures the benefit of each rule. The docs describe the rules that were tried without benefit.
"""

import math
from bisect import insort
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from det_controlplane.core.hparams import Categorical

from .actions import Create
from .history import RungCut
from .rng import Rng
from .rung import pack, unpack
from .sampling import Proposal, Sampler
from .unit_cube import Leaf, decode, encode, leaves_of

LOCAL_FRACTION = (
    0.7  # the other trials sample the whole space, so the search can leave a local optimum
)
_PARENTS = 8
_ENOUGH = 3  # Parents are chosen from rungs with at least so many entries.
_RANK_PRESSURE = 3  # The rank of a parent is uniform ** this, so the best are chosen most often.
_STEPS = (0.02, 0.3)  # The step of each child is drawn between these on a log scale.
_MOVED = 0.6  # The fraction of coordinates that a child changes.
_SWITCHED = 0.1  # The probability of drawing a new categorical value.

Elite = tuple[float, int, str, list[float]]  # loss, order of arrival, request id, point


class LocalProposal(Proposal):
    """Remember the best points of every rung and propose their neighbours."""

    def __init__(self, sampler: Sampler, num_rungs: int, fraction: float = LOCAL_FRACTION) -> None:
        super().__init__(sampler)
        self._fraction = fraction
        self._leaves = leaves_of(sampler.space)
        self._elites: list[list[Elite]] = [[] for _ in range(num_rungs)]
        self._points: dict[str, list[float]] = {}
        self._arrivals = 0

    def create(self) -> Create:
        parents = self._parents()
        rng = self._sampler.rng
        if not parents or not self._leaves or rng.uniform() >= self._fraction:
            create = self._sampler.create()
        else:
            parent = parents[int(len(parents) * rng.uniform() ** _RANK_PRESSURE)]
            child = neighbour_of(self._leaves, parent, rng)
            create = self._sampler.create(decode(self._sampler.space, self._leaves, child))
        self._points[create.request_id] = encode(self._leaves, create.hparams)
        return create

    def record(self, request_id: str, rung: int, loss: float) -> None:
        if not math.isfinite(loss):
            return
        self._arrivals += 1
        best = self._elites[rung]
        insort(best, (loss, self._arrivals, request_id, self._points[request_id]))
        del best[_PARENTS:]

    def forget(self, request_id: str) -> None:
        self.close(request_id)
        for rung, elites in enumerate(self._elites):
            self._elites[rung] = [elite for elite in elites if elite[2] != request_id]

    def close(self, request_id: str) -> None:
        self._points.pop(request_id, None)

    def snapshot(self) -> dict[str, Any]:
        return {
            "arrivals": self._arrivals,
            "points": {request_id: pack(point) for request_id, point in self._points.items()},
            "elites": [
                [
                    [pack([loss]), order, request_id, pack(point)]
                    for loss, order, request_id, point in rung
                ]
                for rung in self._elites
            ],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        self._arrivals = state["arrivals"]
        self._points = {request_id: unpack(point) for request_id, point in state["points"].items()}
        self._elites = [
            [
                (unpack(loss)[0], order, request_id, unpack(point))
                for loss, order, request_id, point in rung
            ]
            for rung in state["elites"]
        ]

    def _parents(self) -> list[list[float]]:
        """Return the best points of the highest rung that has enough, filled up from the lower rungs."""
        parents: dict[str, list[float]] = {}
        for elites in reversed(self._elites):
            if parents or len(elites) >= _ENOUGH:
                for _, _, request_id, point in elites:
                    if len(parents) < _PARENTS:
                        parents.setdefault(request_id, point)
        return list(parents.values())


def neighbour_of(leaves: Sequence[Leaf], parent: Sequence[float], rng: Rng) -> list[float]:
    """Return a variation of a point. The step is drawn once for all its coordinates."""
    low, high = _STEPS
    step = low * (high / low) ** rng.uniform()
    return [
        _maybe_switch(x, rng) if isinstance(hparam, Categorical) else _maybe_move(x, step, rng)
        for (_, hparam), x in zip(leaves, parent, strict=True)
    ]


def _maybe_switch(x: float, rng: Rng) -> float:
    return rng.uniform() if rng.uniform() < _SWITCHED else x


def _maybe_move(x: float, step: float, rng: Rng) -> float:
    if rng.uniform() >= _MOVED:
        return x
    x += step * _gaussian(rng)
    position = -x if x < 0 else 2 - x if x > 1 else x
    return min(max(position, 0.0), 1.0)


def _gaussian(rng: Rng) -> float:
    return math.sqrt(-2 * math.log(1 - rng.uniform())) * math.cos(2 * math.pi * rng.uniform())


class RecentRung:
    """A stopping rung that compares a loss with recent losses only.

    Trials improve while the search learns. Compared with all earlier trials, nearly all new trials would continue,
    and the search would spend its budget on full trainings of mediocre trials.
    """

    __slots__ = ("_count", "_recent", "_share")

    _WINDOW = 27
    _SEVERITY = 2  # stricter than a normal rung, because trials improve within a window too

    def __init__(self, divisor: float) -> None:
        self._count = 0
        self._share = divisor * self._SEVERITY
        self._recent: deque[float] = deque(maxlen=self._WINDOW)

    def __len__(self) -> int:
        return self._count

    def insert(self, loss: float) -> bool:
        self._count += 1
        self._recent.append(loss)
        better = sum(other < loss for other in self._recent)
        return better < self._places()

    def cut(self) -> RungCut:
        best = self._places()
        return RungCut(best, len(self._recent), sorted(self._recent)[best - 1])

    def _places(self) -> int:
        return max(int(len(self._recent) // self._share), 1)

    def remove(self, loss: float) -> None:
        self._count -= 1
        if loss in self._recent:
            self._recent.remove(loss)

    def snapshot(self) -> dict[str, Any]:
        return {"count": self._count, "recent": pack(self._recent)}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._count = state["count"]
        self._recent = deque(unpack(state["recent"]), maxlen=self._WINDOW)
