"""`async_halving`, stopping form: each rung stops all trials except the best.

See docs/concepts/search.md#stopping-time_metric-and-max_time."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .actions import Action, Stop, TrainTo
from .brackets import initial_trials, rung_units
from .ending import Ending
from .history import NO_HISTORY, History, Outcome, new_history
from .method import NOTHING, WORST, Method, as_loss, read_loss, read_time
from .rung import Rung, StoppingRung, pack, unpack
from .sampling import Proposal


@dataclass(frozen=True, slots=True)
class AshaConfig:
    metric: str
    smaller_is_better: bool
    time_metric: str
    max_time: float
    num_rungs: int
    divisor: float
    max_trials: int
    max_concurrent: int
    # With `max_length`, the search sets the length with TrainTo and the harness reports when it has trained so far.
    sets_length: bool = False

    def progress(self, reported: int, ended: int) -> float:
        """Return the progress of a search: `reported` trials reached the first rung, and `ended` trials ended."""
        # The factor reserves a sixth for the trials that continue after all have reported once.
        progress = reported / (1.2 * self.max_trials)
        if reported >= self.max_trials:
            progress = max(progress, ended / self.max_trials)
        return min(progress, 1.0)


class StoppingAsha(Method):
    def __init__(
        self,
        proposal: Proposal,
        config: AshaConfig,
        rung: Callable[[float], Rung] = StoppingRung,
    ) -> None:
        self._proposal = proposal
        self._config = config
        self._sign = 1.0 if config.smaller_is_better else -1.0
        self._units = rung_units(config.num_rungs, config.max_time, config.divisor)
        self._rungs = [rung(config.divisor) for _ in self._units]
        # The losses of each live trial at the rungs that it passed. Their number is the index of its current rung.
        self._passed: dict[str, list[float]] = {}
        self._created = 0
        self._invalid = 0
        self._completed = 0
        self._history: History = NO_HISTORY

    def started(self) -> Sequence[Action]:
        config = self._config
        first = initial_trials(
            config.num_rungs, config.divisor, config.max_trials, config.max_concurrent
        )
        return [action for _ in range(first) for action in self._create()]

    def validated(self, request_id: str, metrics: Mapping[str, Any]) -> Sequence[Action]:
        config = self._config
        if config.sets_length and config.time_metric not in metrics:
            return NOTHING  # a harness that answers TrainTo reports its length in `completed`
        time = read_time(metrics, config.time_metric, request_id)
        loss = read_loss(metrics, config.metric, self._sign, request_id)
        return self._climb(request_id, time, loss)

    def completed(self, request_id: str, length: float, metric: Any) -> Sequence[Action]:
        loss = as_loss(metric, self._config.metric, self._sign, request_id)
        return self._climb(request_id, length, loss)

    def invalid(self, request_id: str) -> Sequence[Action]:
        for rung, loss in zip(self._rungs, self._passed.pop(request_id), strict=False):
            rung.remove(loss)
        self._proposal.forget(request_id)
        self._history.removed(request_id)
        self._invalid += 1
        return [Stop(request_id), *self._replace()]

    def exited_early(self, request_id: str, reason: str) -> Sequence[Action]:
        losses = self._passed.pop(request_id)
        self._rungs[len(losses)].insert(WORST)
        self._history.lost(len(losses))
        self._proposal.close(request_id)
        return self._replace()

    def finished(self, request_id: str) -> Sequence[Action]:
        del self._passed[request_id]
        self._proposal.close(request_id)
        return self._replace()

    def exited(self, request_id: str) -> Sequence[Action]:
        self._completed += 1
        return NOTHING

    def progress(self) -> float:
        return self._config.progress(len(self._rungs[0]), self._completed - self._invalid)

    @property
    def has_model(self) -> bool:
        return self._proposal.has_model

    def expected_gain(self) -> float | None:
        return self._proposal.expected_gain()

    def ending(self) -> Ending | None:
        return self._proposal.ending()

    def watched(self) -> Sequence[History]:
        self._history = new_history(self._units)
        return [self._history]

    def snapshot(self) -> dict[str, Any]:
        return {
            "created": self._created,
            "invalid": self._invalid,
            "completed": self._completed,
            "rungs": [rung.snapshot() for rung in self._rungs],
            "proposal": self._proposal.snapshot(),
            "passed": {request_id: pack(losses) for request_id, losses in self._passed.items()},
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        self._created = state["created"]
        self._invalid = state["invalid"]
        self._completed = state["completed"]
        for rung, entries in zip(self._rungs, state["rungs"], strict=True):
            rung.restore(entries)
        self._proposal.restore(state["proposal"])
        self._passed = {request_id: unpack(text) for request_id, text in state["passed"].items()}

    def _climb(self, request_id: str, time: float, loss: float) -> Sequence[Action]:
        """Decide at every rung that the trial has reached. One report may pass several rungs."""
        losses, units = self._passed[request_id], self._units
        rung, top = len(losses), len(units) - 1
        if time < units[rung]:
            return NOTHING
        while time >= units[rung]:
            self._proposal.record(request_id, rung, loss)
            continues = self._rungs[rung].insert(loss)
            if self._history is not NO_HISTORY:
                outcome = _outcome(continues, rung == top)
                self._history.arrived(request_id, rung, loss, outcome, self._rungs[rung].cut())
            if not continues or rung == top:
                return self._stop(request_id, early=not continues and rung < top)
            losses.append(loss)
            rung += 1
        return [TrainTo(request_id, units[rung])] if self._config.sets_length else NOTHING

    def _stop(self, request_id: str, early: bool) -> list[Action]:
        del self._passed[request_id]
        self._proposal.close(request_id)
        return [Stop(request_id, early), *self._replace()]

    def _replace(self) -> Sequence[Action]:
        if self._created - self._invalid < self._config.max_trials and self.ending() is None:
            return self._create()
        return NOTHING

    def _create(self) -> list[Action]:
        create = self._proposal.create()
        self._created += 1
        self._passed[create.request_id] = []
        self._history.created(create.request_id)
        if self._config.sets_length:
            return [create, TrainTo(create.request_id, self._units[0])]
        return [create]


def _outcome(continues: bool, at_top: bool) -> Outcome:
    if at_top:
        return Outcome.FINISHED
    return Outcome.WENT_ON if continues else Outcome.STOPPED
