"""Simulate a whole search with invented trials, for `det preview-search` and the benchmarks."""

import heapq
import math
import random
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from det_controlplane.core.hparams import Space

from .actions import Action, Create, Park, Stop, TrainTo
from .events import Event, Exited, Started, Validated
from .registry import Searcher, new, report_lengths, unit_of
from .search import Search

# (hyperparameters, trial seed, total training length) -> the searcher metric
Curve = Callable[[Mapping[str, Any], int, float], float]


@dataclass(slots=True)
class SimulatedTrial:
    create: Create
    inherited: float = 0.0  # the training length of its parent when it was copied
    length: float = 0.0
    target: float | None = None
    metric: float | None = None
    running: bool = False
    ended: str | None = None  # "stopped" or "finished"


@dataclass(slots=True)
class Simulation:
    """The outcome of every trial, and the work of the search in units of training."""

    trials: dict[str, SimulatedTrial] = field(default_factory=dict)
    work: float = 0.0
    elapsed: float = 0.0
    outcome: Action | None = None


def simulate(
    searcher: Searcher,
    space: Space,
    seed: int,
    curve: Curve | None = None,
    slots: int = 0,
    budget: float = float("inf"),
    observe: Callable[[float, SimulatedTrial], None] | None = None,
    search: Search | None = None,
) -> Simulation:
    """Run a search to its end or until `budget` units are trained. `slots` limits concurrent trials (0: no limit).

    `observe(work, trial)` is called for every report. It can read the state of `search`, a new search of the caller.
    """
    search = search or new(searcher, space, seed)
    world = _World(search, searcher, curve or plausible_curve(searcher), slots, observe)
    world.run(budget)
    return world.simulation


def plausible_curve(searcher: Searcher) -> Curve:
    """Return a loss curve for previews. It falls like a power of the length, and curves seldom cross."""
    better_down = searcher.get("smaller_is_better", True) is not False

    def curve(hparams: Mapping[str, Any], seed: int, length: float) -> float:
        trial = random.Random(seed)
        floor, speed = trial.random(), 0.3 + 0.4 * trial.random()
        loss = floor + (1.5 - floor) * math.pow(1 + length, -speed)
        return loss if better_down else 1 - loss

    return curve


class _World:
    def __init__(
        self,
        search: Search,
        searcher: Searcher,
        curve: Curve,
        slots: int,
        observe: Callable[[float, SimulatedTrial], None] | None,
    ) -> None:
        self.simulation = Simulation()
        self._search = search
        self._curve = curve
        self._lengths: Sequence[int] = report_lengths(searcher)
        self._metric, self._unit = str(searcher["metric"]), unit_of(searcher)
        self._slots = slots or float("inf")
        self._observe = observe
        self._queue: deque[str] = deque()
        self._due: list[tuple[float, int, str, float]] = []
        self._order = 0
        self._busy = 0

    def run(self, budget: float) -> None:
        self._fold(Started())
        self._fill()
        while self._due and self.simulation.work < budget:
            now, _, request_id, length = heapq.heappop(self._due)
            self.simulation.elapsed = now
            self._report(request_id, length)
            self._fill()

    def _report(self, request_id: str, length: float) -> None:
        trial = self.simulation.trials[request_id]
        self.simulation.work += length - trial.length
        trial.length = length
        trial.metric = self._curve(
            trial.create.hparams, trial.create.seed, trial.inherited + length
        )
        if self._observe is not None:
            self._observe(self.simulation.work, trial)
        self._fold(Validated(request_id, {self._metric: trial.metric, self._unit: length}))
        if trial.running and not self._schedule(request_id):
            trial.ended = "finished"
            self._leave(trial)
            self._fold(Exited(request_id))

    def _fold(self, event: Event) -> None:
        self._apply(self._search.fold(event))

    def _apply(self, actions: Iterable[Action]) -> None:
        for action in actions:
            if isinstance(action, Create):
                self._create(action)
            elif isinstance(action, TrainTo):
                self._train(action)
            elif isinstance(action, Park):
                self._leave(self.simulation.trials[action.request_id])
            elif isinstance(action, Stop):
                self._stop(action.request_id)
            else:
                self.simulation.outcome = action

    def _create(self, create: Create) -> None:
        trial = SimulatedTrial(create)
        if create.warm_start_from is not None:
            parent = self.simulation.trials[create.warm_start_from]
            trial.inherited = parent.inherited + parent.length
        self.simulation.trials[create.request_id] = trial
        self._queue.append(create.request_id)

    def _train(self, action: TrainTo) -> None:
        trial = self.simulation.trials[action.request_id]
        trial.target = action.length
        if not trial.running and action.request_id not in self._queue:
            self._queue.append(action.request_id)

    def _stop(self, request_id: str) -> None:
        trial = self.simulation.trials[request_id]
        trial.ended = "stopped"
        self._leave(trial)
        self._fold(Exited(request_id))

    def _leave(self, trial: SimulatedTrial) -> None:
        self._busy -= trial.running
        trial.running = False

    def _fill(self) -> None:
        while self._queue and self._busy < self._slots:
            request_id = self._queue.popleft()
            trial = self.simulation.trials[request_id]
            if trial.ended is None:
                trial.running = True
                self._busy += 1
                self._schedule(request_id)

    def _schedule(self, request_id: str) -> bool:
        """Schedule the trial's next report. Return False if its script has ended."""
        trial = self.simulation.trials[request_id]
        length: float
        if trial.target is not None and trial.target > trial.length:
            length = trial.target
        elif trial.length < self._lengths[-1]:
            length = self._lengths[bisect_right(self._lengths, trial.length)]
        else:
            return False
        self._order += 1
        due = self.simulation.elapsed + length - trial.length
        heapq.heappush(self._due, (due, self._order, request_id, length))
        return True
