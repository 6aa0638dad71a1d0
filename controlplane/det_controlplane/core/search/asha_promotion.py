"""ASHA, promotion form: trials wait at a rung with a checkpoint and continue when they are promoted.

See docs/concepts/search.md#promotion-max_length."""

from collections.abc import Mapping, Sequence
from typing import Any

from .actions import Action, Park, Stop, TrainTo
from .asha import AshaConfig
from .brackets import initial_trials, rung_units
from .ending import Ending
from .history import NO_HISTORY, History, Outcome, RungCut, new_history
from .method import NOTHING, Method, as_loss, read_loss, read_time
from .promotion_rung import PromotionRung, Waiting
from .sampling import Proposal


class PromotionAsha(Method):
    def __init__(self, proposal: Proposal, config: AshaConfig) -> None:
        self._proposal = proposal
        self._config = config
        self._sign = 1.0 if config.smaller_is_better else -1.0
        units = rung_units(config.num_rungs, config.max_time, config.divisor)
        self._units = sorted(set(units))  # a promotion to the same length would have no effect
        self._rungs = [PromotionRung() for _ in self._units]
        self._training: dict[str, int] = {}  # the next rung of each running trial
        self._gone: set[str] = set()  # trials that ended while they waited
        self._created = 0
        self._invalid = 0
        self._completed = 0
        self._arrivals = 0
        self._history: History = NO_HISTORY

    def started(self) -> Sequence[Action]:
        config = self._config
        first = initial_trials(
            len(self._units), config.divisor, config.max_trials, config.max_concurrent
        )
        return [action for _ in range(first) for action in self._create()]

    def validated(self, request_id: str, metrics: Mapping[str, Any]) -> Sequence[Action]:
        config = self._config
        rung = self._training.get(request_id)
        if rung is None or config.time_metric not in metrics:
            return NOTHING
        if read_time(metrics, config.time_metric, request_id) < self._units[rung]:
            return NOTHING
        return self._arrive(
            request_id, rung, read_loss(metrics, config.metric, self._sign, request_id)
        )

    def completed(self, request_id: str, length: float, metric: Any) -> Sequence[Action]:
        rung = self._training.get(request_id)
        if rung is None or length < self._units[rung]:
            return NOTHING
        loss = as_loss(metric, self._config.metric, self._sign, request_id)
        return self._arrive(request_id, rung, loss)

    def invalid(self, request_id: str) -> Sequence[Action]:
        rung_index = self._training.pop(request_id, None)
        if rung_index is None:
            rung_index = self._rung_of_waiting(request_id)
            self._gone.add(request_id)
            self._rungs[rung_index].arrived -= 1
        for rung in self._rungs[:rung_index]:
            rung.arrived -= 1
            rung.promoted -= 1
        self._proposal.forget(request_id)
        self._history.removed(request_id)
        self._invalid += 1
        return [Stop(request_id), *([] if self.ending() else self._create())]

    def exited_early(self, request_id: str, reason: str) -> Sequence[Action]:
        return self._lose(request_id)

    def finished(self, request_id: str) -> Sequence[Action]:
        return self._lose(request_id)

    def exited(self, request_id: str) -> Sequence[Action]:
        self._completed += 1
        return NOTHING

    def progress(self) -> float:
        return self._config.progress(self._rungs[0].arrived, self._completed - self._invalid)

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
            "arrivals": self._arrivals,
            "training": dict(self._training),
            "rungs": [rung.snapshot(self._gone) for rung in self._rungs],
            "proposal": self._proposal.snapshot(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        self._created = state["created"]
        self._invalid = state["invalid"]
        self._completed = state["completed"]
        self._arrivals = state["arrivals"]
        self._training = dict(state["training"])
        self._gone = set()
        for rung, rung_state in zip(self._rungs, state["rungs"], strict=True):
            rung.restore(rung_state)
        self._proposal.restore(state["proposal"])

    def _arrive(self, request_id: str, index: int, loss: float) -> list[Action]:
        rung = self._rungs[index]
        del self._training[request_id]
        rung.arrived += 1
        self._proposal.record(request_id, index, loss)
        last = index == len(self._rungs) - 1
        outcome = Outcome.FINISHED if last else Outcome.WAITS
        self._history.arrived(request_id, index, loss, outcome, RungCut(0, rung.arrived, loss))
        if last:
            self._proposal.close(request_id)
            return [Stop(request_id), *self._create_if_due(), *self._close_full_rungs()]
        self._arrivals += 1
        rung.wait((loss, self._arrivals, request_id))
        promotions = self._promote(index)
        waits = request_id not in self._training and self.ending() is None
        actions: list[Action] = [Park(request_id)] if waits else []
        return [*actions, *(promotions or self._create_if_due()), *self._close_full_rungs()]

    def _lose(self, request_id: str) -> Sequence[Action]:
        """Count a trial that ended early as the worst of its next rung."""
        self._proposal.close(request_id)
        index = self._training.pop(request_id, None)
        if index is None:
            self._gone.add(request_id)  # it held no slots, so no trial replaces it
            return NOTHING
        self._rungs[index].arrived += 1
        self._history.lost(index)
        promotions = self._promote(index) if index < len(self._rungs) - 1 else []
        return [*(promotions or self._create_if_due()), *self._close_full_rungs()]

    def _promote(self, index: int) -> list[Action]:
        """Promote the best waiting trial if the rung may promote another one."""
        rung = self._rungs[index]
        if rung.promoted >= int(rung.arrived // self._config.divisor) or self.ending():
            return []
        request_id = self._take_best(rung)
        if request_id is None:
            return []
        return [self._continue(request_id, index)]

    def _continue(self, request_id: str, index: int) -> TrainTo:
        """Train a trial that was removed from its rung to the next one."""
        self._rungs[index].promoted += 1
        self._history.settled(request_id, Outcome.WENT_ON)
        self._training[request_id] = index + 1
        return TrainTo(request_id, self._units[index + 1])

    def _take_best(self, rung: PromotionRung) -> str | None:
        """Remove the trial that the proposal chooses among the best waiting ones."""
        waiting: list[Waiting] = []
        while len(waiting) < self._proposal.considered and (entry := rung.pop()) is not None:
            if entry[2] in self._gone:
                self._gone.remove(entry[2])
            else:
                waiting.append(entry)
        if not waiting:
            return None
        chosen = self._proposal.choose([request_id for _, _, request_id in waiting])
        for entry in waiting:
            if entry[2] != chosen:
                rung.wait(entry)
        return chosen

    def _close_full_rungs(self) -> list[Action]:
        """Stop the trials that wait at rungs which no other trial can reach. They cannot be promoted any more.

        A search that ends early stops all waiting trials."""
        if self.ending() is not None:
            return [action for rung in self._rungs[:-1] for action in self._release(rung)]
        actions: list[Action] = []
        arrivals = self._config.max_trials
        for index, rung in enumerate(self._rungs[:-1]):
            if rung.arrived < arrivals:
                break
            while promotion := self._promote(index):
                actions.extend(promotion)
            actions.extend(self._release(rung))
            arrivals = rung.promoted
        return actions

    def _release(self, rung: PromotionRung) -> list[Action]:
        waiting = rung.clear()
        ids = [request_id for request_id in waiting if request_id not in self._gone]
        self._gone.difference_update(waiting)
        for request_id in ids:
            self._proposal.close(request_id)
            self._history.settled(request_id, Outcome.PASSED_OVER)
        return [Stop(request_id, early=True) for request_id in ids]

    def _rung_of_waiting(self, request_id: str) -> int:
        """Return the rung of a waiting trial. The scan is linear, but seldom needed."""
        return next(
            index
            for index, rung in enumerate(self._rungs)
            if any(request_id == waiting for _, _, waiting in rung.in_order())
        )

    def _create_if_due(self) -> list[Action]:
        if self._created - self._invalid >= self._config.max_trials or self.ending():
            return []
        request_id = self._proposal.resume(self._waits)
        if request_id is None:
            return self._create()
        index = self._rung_of_waiting(request_id)
        self._rungs[index].remove(request_id)
        return [self._continue(request_id, index)]

    def _waits(self, request_id: str) -> bool:
        return request_id not in self._training and request_id not in self._gone

    def _create(self) -> list[Action]:
        create = self._proposal.create()
        self._created += 1
        self._training[create.request_id] = 0
        self._history.created(create.request_id)
        return [create, TrainTo(create.request_id, self._units[0])]
