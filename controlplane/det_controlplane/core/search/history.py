"""Record the decisions of a halving search at its rungs while its events are replayed."""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

# The loss of a failed trial is at least this large. It is not displayed as a number.
_NO_NUMBER = sys.float_info.max


class Outcome(Enum):
    WENT_ON = "WENT_ON"
    STOPPED = "STOPPED"
    WAITS = "WAITS"  # promotion form: it waits for other trials to reach its rung
    PASSED_OVER = "PASSED_OVER"  # promotion form: other trials were promoted, and no more can come
    FINISHED = "FINISHED"  # it reached the last rung, so its training is complete


_STOPS = (Outcome.STOPPED, Outcome.PASSED_OVER)


@dataclass(frozen=True, slots=True)
class RungCut:
    """The number of trials that continue from a rung, and the worst loss among them."""

    best: int
    among: int
    loss: float


@dataclass(frozen=True, slots=True)
class Judgement:
    rung: int
    loss: float
    outcome: Outcome
    cut: RungCut


@dataclass(slots=True)
class RungHistory:
    length: int
    arrived: int = 0
    went_on: int = 0
    stopped: int = 0
    worst_on: float = -math.inf  # the worst loss that continued


@dataclass(slots=True)
class History:
    """The rungs of one bracket, and the decisions at them."""

    rungs: list[RungHistory]
    trials: dict[str, list[Judgement]] = field(default_factory=dict)

    def created(self, request_id: str) -> None:
        self.trials[request_id] = []

    def arrived(
        self, request_id: str, rung: int, loss: float, outcome: Outcome, cut: RungCut
    ) -> None:
        self.trials[request_id].append(Judgement(rung, loss, outcome, cut))
        self.rungs[rung].arrived += 1
        self._count(self.trials[request_id][-1])

    def settled(self, request_id: str, outcome: Outcome) -> None:
        """Record the outcome of a waiting trial. It was compared with all trials that reached its rung."""
        waiting = self.trials[request_id].pop()
        rung = self.rungs[waiting.rung]
        worst = max(rung.worst_on, waiting.loss) if outcome is Outcome.WENT_ON else rung.worst_on
        best = rung.went_on + (outcome is Outcome.WENT_ON)
        judgement = replace(waiting, outcome=outcome, cut=RungCut(best, rung.arrived, worst))
        self.trials[request_id].append(judgement)
        self._count(judgement)

    def lost(self, rung: int) -> None:
        """Count a trial that failed on its way to a rung. It counts as the worst trial of the rung."""
        self.rungs[rung].arrived += 1
        self.rungs[rung].stopped += 1

    def removed(self, request_id: str) -> None:
        """Remove a trial with invalid hyperparameters."""
        for judgement in self.trials[request_id]:
            rung = self.rungs[judgement.rung]
            rung.arrived -= 1
            rung.went_on -= judgement.outcome is Outcome.WENT_ON
            rung.stopped -= judgement.outcome in _STOPS
        self.trials[request_id] = []

    def _count(self, judgement: Judgement) -> None:
        rung = self.rungs[judgement.rung]
        if judgement.outcome is Outcome.WENT_ON:
            rung.went_on += 1
            rung.worst_on = max(rung.worst_on, judgement.loss)
        elif judgement.outcome in _STOPS:
            rung.stopped += 1


class NoHistory(History):
    """Record no decisions. A search without an audience uses it to save memory."""

    def __init__(self) -> None:
        super().__init__([])

    def created(self, request_id: str) -> None: ...

    def arrived(
        self, request_id: str, rung: int, loss: float, outcome: Outcome, cut: RungCut
    ) -> None: ...

    def settled(self, request_id: str, outcome: Outcome) -> None: ...

    def lost(self, rung: int) -> None: ...

    def removed(self, request_id: str) -> None: ...


NO_HISTORY = NoHistory()


def new_history(lengths: Sequence[int]) -> History:
    return History([RungHistory(length) for length in lengths])


@dataclass(frozen=True, slots=True)
class JudgementWording:
    """Describe the judgements of one bracket in sentences."""

    method: str
    metric: str
    smaller_is_better: bool
    unit: str
    lengths: Sequence[int]

    def value(self, loss: float) -> float | None:
        """Return a loss as the reported metric, or None if the metric was not a number."""
        if abs(loss) >= _NO_NUMBER:
            return None
        return loss if self.smaller_is_better else -loss

    def sentence(self, judgement: Judgement) -> str:
        """Return the latest decision about a trial, as the end of a sentence that begins with "Trial 7"."""
        value, cut, at = self._shown(judgement.loss), judgement.cut, judgement.rung
        length = f"{self.lengths[at]} {self.unit}"
        place = f"rung {at + 1} of {len(self.lengths)} ({length})"
        beginning, share = f"was stopped by {self.method} at {place}", f"{cut.best} of {cut.among}"
        match judgement.outcome:
            case Outcome.FINISHED:
                return f"trained for all {length}; final {self.metric} {value}"
            case Outcome.WAITS:
                wait = f"is waiting at {place} with {self.metric} {value} and holds no slots"
                return f"{wait} until it is promoted or no other trial can reach this rung"
            case Outcome.WENT_ON:
                return f"continued past {place}: {value} was among the best {share}"
            case Outcome.PASSED_OVER:
                promotions = f"{share} were promoted"
                return f"{beginning}: {promotions}, and {value} was never the best waiting trial"
            case Outcome.STOPPED:
                cut_off = f"cut-off {self._shown(cut.loss)}"
                return f"{beginning}: {value} was not among the best {share} ({cut_off})"

    def _shown(self, loss: float) -> str:
        value = self.value(loss)
        return "NaN" if value is None else f"{value:.4g}"
