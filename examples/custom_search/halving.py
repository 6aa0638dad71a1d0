"""Successive halving: train many a little, the best third three times as long, and so on."""

import json
import pathlib
import random
import uuid
from typing import Any

from determined import searcher
from determined.searcher import ExitedReason, Operation, SearcherState

STATE = "halving.json"


class SuccessiveHalving(searcher.SearchMethod):
    """Draws `trials` points of a log-uniform learning rate; `lengths` are the rungs, shortest first."""

    def __init__(self, trials: int, lengths: list[int], seed: int = 0) -> None:
        self.trials = trials
        self.lengths = lengths
        self.rng = random.Random(seed)
        self.rung_of: dict[str, int] = {}  # of trials that are still in the race
        self.metrics: dict[str, float] = {}  # metrics of trials that have reached their rung

    def initial_operations(self, state: SearcherState) -> list[Operation]:
        operations: list[Operation] = []
        for _ in range(self.trials):
            request_id = uuid.UUID(int=self.rng.getrandbits(128), version=4)
            hparams = {"learning_rate": 10 ** self.rng.uniform(-3, 0)}
            operations.append(searcher.Create(request_id, hparams))
            operations.append(searcher.ValidateAfter(request_id, self.lengths[0]))
            self.rung_of[str(request_id)] = 0
        return operations

    def on_trial_created(self, state: SearcherState, request_id: uuid.UUID) -> list[Operation]:
        return []

    def on_validation_completed(
        self, state: SearcherState, request_id: uuid.UUID, metric: Any, train_length: int
    ) -> list[Operation]:
        if str(request_id) in self.rung_of:
            self.metrics[str(request_id)] = float(metric)
        return self._decide()

    def on_trial_exited_early(
        self, state: SearcherState, request_id: uuid.UUID, exited_reason: ExitedReason
    ) -> list[Operation]:
        self._drop(str(request_id))
        return self._decide()

    def on_trial_closed(self, state: SearcherState, request_id: uuid.UUID) -> list[Operation]:
        self._drop(str(request_id))
        if len(state.trials_closed) < self.trials:
            return self._decide()
        return [searcher.Shutdown(failure=len(state.failures) == self.trials)]

    def progress(self, state: SearcherState) -> float:
        return len(state.trials_closed) / self.trials

    def _drop(self, trial: str) -> None:
        self.rung_of.pop(trial, None)
        self.metrics.pop(trial, None)

    def _decide(self) -> list[Operation]:
        """When every trial has reached the rung, continue the best third and close the others."""
        if not self.rung_of or len(self.metrics) < len(self.rung_of):
            return []
        rung = max(self.rung_of.values()) + 1
        ranked = sorted(self.metrics, key=lambda trial: self.metrics[trial])
        kept = ranked[: max(len(ranked) // 3, 1)] if rung < len(self.lengths) else []
        self.rung_of, self.metrics = dict.fromkeys(kept, rung), {}
        return [
            searcher.ValidateAfter(uuid.UUID(trial), self.lengths[rung])
            if trial in kept
            else searcher.Close(uuid.UUID(trial))
            for trial in ranked
        ]

    def save_method_state(self, path: pathlib.Path) -> None:
        version, internal, gauss = self.rng.getstate()
        state = {
            "rung_of": self.rung_of,
            "metrics": self.metrics,
            "rng": [version, internal, gauss],
        }
        (path / STATE).write_text(json.dumps(state))

    def load_method_state(self, path: pathlib.Path) -> None:
        state = json.loads((path / STATE).read_text())
        self.rung_of, self.metrics = state["rung_of"], state["metrics"]
        version, internal, gauss = state["rng"]
        self.rng.setstate((version, tuple(internal), gauss))
