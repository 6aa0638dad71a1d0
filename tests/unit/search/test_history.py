"""A search records its decisions and makes the same ones."""

import random
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from det_controlplane.core.hparams import Log, Space
from det_controlplane.core.search import (
    Create,
    Exited,
    ExitedEarly,
    ExitReason,
    History,
    JudgementWording,
    OperationCompleted,
    Outcome,
    Search,
    Started,
    Stop,
    Validated,
    new,
    report_lengths,
)

SPACE: Space = {"lr": Log(-4.0, -1.0, 10.0)}
STOPPING: dict[str, Any] = {
    "name": "adaptive_asha", "metric": "loss", "smaller_is_better": True, "time_metric": "batches",
    "max_time": 900, "max_rungs": 5, "divisor": 4, "max_trials": 40, "mode": "standard",
    "max_concurrent_trials": 8,
}  # fmt: skip
PROMOTION = {**STOPPING, "time_metric": None, "max_time": None, "max_length": {"batches": 900}}
LOCAL = {**STOPPING, "name": "local_asha", "num_rungs": 3}
PLAIN = {**STOPPING, "name": "async_halving", "num_rungs": 3, "divisor": 3, "max_time": 9}


class SearchRun:
    """A search with trials that report at every rung, in an order that a seed decides."""

    def __init__(self, searcher: Mapping[str, Any], *, watched: bool = True) -> None:
        self.search: Search = new(searcher, SPACE, 3)
        self.histories = list(self.search.method.watched()) if watched else []
        self.actions: list[Any] = []
        self.live: dict[str, int] = {}
        self.stopped: set[str] = set()
        self.fold(Started())

    def fold(self, event: Any) -> None:
        actions = self.search.fold(event)
        self.actions += actions
        self.live |= {a.request_id: 0 for a in actions if isinstance(a, Create)}
        for action in actions:
            if isinstance(action, Stop):
                self.live.pop(action.request_id, None)
                self.stopped.add(action.request_id)
                self.fold(Exited(action.request_id))

    def play(self, searcher: Mapping[str, Any], seed: int) -> "SearchRun":
        chance = random.Random(seed)
        lengths = report_lengths(searcher)
        promotes = searcher.get("max_time") is None
        for _ in range(600):
            if not self.live:
                break
            trial = chance.choice(sorted(self.live))
            length = lengths[min(self.live[trial], len(lengths) - 1)]
            self.live[trial] += 1
            if chance.random() < 0.03:
                del self.live[trial]
                self.fold(ExitedEarly(trial, ExitReason.ERRORED))
                self.fold(Exited(trial))
            elif promotes:
                self.fold(OperationCompleted(trial, length, chance.random()))
            else:
                self.fold(Validated(trial, {"loss": chance.random(), "batches": length}))
        return self


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("searcher", [STOPPING, PROMOTION, LOCAL, PLAIN])
def test_history_contains_the_decisions_and_does_not_affect_them(
    searcher: dict[str, Any], seed: int
) -> None:
    played = SearchRun(searcher).play(searcher, seed)
    unwatched = SearchRun(searcher, watched=False).play(searcher, seed)
    assert played.actions == unwatched.actions
    judgements = {id: judged for h in played.histories for id, judged in h.trials.items()}
    assert set(judgements) == {a.request_id for a in played.actions if isinstance(a, Create)}
    outcomes = (Outcome.STOPPED, Outcome.PASSED_OVER, Outcome.FINISHED)
    assert {
        id for id, judged in judgements.items() if judged and judged[-1].outcome in outcomes
    } == (played.stopped)
    for history in played.histories:
        check_counts(history)


def check_counts(history: History) -> None:
    counts = Counter((j.rung, j.outcome) for judged in history.trials.values() for j in judged)
    for at, rung in enumerate(history.rungs):
        assert rung.went_on == counts[at, Outcome.WENT_ON]
        assert rung.arrived >= sum(counts[at, outcome] for outcome in Outcome)
        assert rung.went_on <= rung.arrived
    for judged in history.trials.values():
        assert [j.rung for j in judged] == list(range(len(judged)))
        for judgement in judged:
            cut = judgement.cut
            if judgement.outcome is Outcome.STOPPED:
                assert cut.best <= cut.among
                assert judgement.loss >= cut.loss
            elif judgement.outcome is Outcome.WENT_ON:
                assert judgement.loss <= cut.loss


def told(history: History, trial: str, *, smaller_is_better: bool = True) -> str:
    telling = JudgementWording(
        "ASHA", "loss", smaller_is_better, "batches", [r.length for r in history.rungs]
    )
    return telling.sentence(history.trials[trial][-1])


def test_history_names_the_cause_of_a_stop() -> None:
    played = SearchRun({**PLAIN, "max_concurrent_trials": 4})
    (history,) = played.histories
    first, second, third, fourth = history.trials
    for trial, loss in ((first, 0.25), (second, 0.5), (third, 0.125)):
        played.fold(Validated(trial, {"loss": loss, "batches": 1}))
    assert (
        told(history, first)
        == "continued past rung 1 of 3 (1 batches): 0.25 was among the best 1 of 1"
    )
    assert told(history, second) == (
        "was stopped by ASHA at rung 1 of 3 (1 batches): 0.5 was not among the best 1 of 2 (cut-off 0.25)"
    )
    played.fold(Validated(fourth, {"loss": float("nan"), "batches": 1}))
    assert "NaN was not among the best 1 of 4 (cut-off 0.125)" in told(history, fourth)
    played.fold(Validated(third, {"loss": 0.0625, "batches": 9}))
    assert told(history, third) == "trained for all 9 batches; final loss 0.0625"


def test_history_has_the_reported_value_of_a_maximized_metric() -> None:
    searcher = {**PLAIN, "smaller_is_better": False}
    played = SearchRun(searcher)
    (history,) = played.histories
    first, second, *_ = history.trials
    played.fold(Validated(first, {"loss": 0.75, "batches": 1}))
    played.fold(Validated(second, {"loss": 0.5, "batches": 1}))
    assert told(history, second, smaller_is_better=False).endswith(
        "0.5 was not among the best 1 of 2 (cut-off 0.75)"
    )


def test_history_shows_a_trial_as_waiting_until_its_rung_closes() -> None:
    searcher = {**PROMOTION, "name": "async_halving", "num_rungs": 2, "max_trials": 4, "divisor": 4}
    played = SearchRun(searcher)
    (history,) = played.histories
    trials = list(history.trials)
    length = history.rungs[0].length
    played.fold(OperationCompleted(trials[0], length, 0.5))
    assert told(history, trials[0]).startswith(
        f"is waiting at rung 1 of 2 ({length} batches) with loss 0.5"
    )
    for trial, loss in zip(trials[1:], (0.25, 0.75, 1.0), strict=True):
        played.fold(OperationCompleted(trial, length, loss))
    assert told(history, trials[0]) == (
        f"was stopped by ASHA at rung 1 of 2 ({length} batches): 1 of 4 were promoted,"
        " and 0.5 was never the best waiting trial"
    )


def test_invalid_trial_is_not_counted_in_any_rung() -> None:
    played = SearchRun(PLAIN)
    (history,) = played.histories
    first = next(iter(history.trials))
    played.fold(Validated(first, {"loss": 0.5, "batches": 1}))
    assert history.rungs[0].went_on == 1
    played.fold(ExitedEarly(first, ExitReason.INVALID_HP))
    assert (history.rungs[0].arrived, history.rungs[0].went_on) == (0, 0)
    assert history.trials[first] == []
