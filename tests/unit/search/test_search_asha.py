"""ASHA that stops: rungs, decisions and brackets."""

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
    Fail,
    OperationCompleted,
    Search,
    Shutdown,
    SimulatedTrial,
    Started,
    Stop,
    TrainTo,
    Validated,
    brackets_of,
    new,
    simulate,
)
from det_controlplane.core.search.brackets import (
    Bracket,
    bracket_concurrency,
    bracket_trials,
    initial_trials,
    rung_units,
)
from det_controlplane.core.search.rung import unpack

SPACE: Space = {"lr": Log(-4.0, -1.0, 10.0)}
ASHA: dict[str, Any] = {
    "name": "async_halving",
    "metric": "loss",
    "smaller_is_better": True,
    "time_metric": "batches",
    "max_time": 9,
    "num_rungs": 3,
    "divisor": 3,
    "max_trials": 20,
    "max_concurrent_trials": 4,
}


class SearchRun:
    """A search with trials named 1, 2, … in the order of their creation."""

    def __init__(self, **fields: Any) -> None:
        self.search: Search = new({**ASHA, **fields}, SPACE, 0)
        self.ids: list[str] = []
        self.fold(Started())

    def fold(self, event: Any) -> list[Any]:
        actions = self.search.fold(event)
        self.ids.extend(a.request_id for a in actions if isinstance(a, Create))
        return [self._named(action) for action in actions]

    def report(self, trial: int, loss: Any, batches: Any = 1) -> list[Any]:
        return self.fold(Validated(self.ids[trial - 1], {"loss": loss, "batches": batches}))

    def early(self, trial: int, reason: ExitReason) -> list[Any]:
        return self.fold(ExitedEarly(self.ids[trial - 1], reason))

    def exit(self, trial: int) -> list[Any]:
        return self.fold(Exited(self.ids[trial - 1]))

    def _named(self, action: Any) -> Any:
        if isinstance(action, (Create, Stop)):
            return (type(action).__name__, self.ids.index(action.request_id) + 1)
        if isinstance(action, TrainTo):
            return ("TrainTo", self.ids.index(action.request_id) + 1, action.length)
        return action


@pytest.mark.parametrize(
    ("rungs", "max_time", "divisor", "units"),
    [
        (3, 9, 3, [1, 3, 9]),
        (4, 10, 2, [1, 2, 5, 10]),
        (1, 9, 3, [9]),
        (3, 900, 3, [100, 300, 900]),
        (2, 90, 3, [30, 90]),
        (5, 16, 4, [1, 1, 1, 4, 16]),
    ],
)
def test_rungs_divide_the_whole_training(
    rungs: int, max_time: int, divisor: int, units: list[int]
) -> None:
    assert rung_units(rungs, max_time, divisor) == units


def test_unlimited_concurrency_starts_enough_trials_to_fill_the_top_rung() -> None:
    assert initial_trials(3, 3, 100, 0) == 9
    assert initial_trials(3, 3, 5, 0) == 5
    assert initial_trials(3, 3, 100, 16) == 16


def test_first_trial_at_a_rung_continues() -> None:
    assert SearchRun().report(1, 0.5) == []


def test_better_trial_continues_and_worse_trial_is_replaced() -> None:
    played = SearchRun()
    played.report(1, 0.5)
    assert played.report(2, 0.4) == []
    assert played.report(3, 0.6) == [("Stop", 3), ("Create", 5)]


def test_equal_metric_counts_as_better_than_earlier_ones() -> None:
    played = SearchRun()
    played.report(1, 0.5)
    assert played.report(2, 0.5) == []


def test_trial_is_not_stopped_before_its_rung() -> None:
    played = SearchRun(max_time=900)
    played.report(1, 0.1, 100)
    assert played.report(2, 0.9, 99) == []
    assert played.report(2, 0.9, 100) == [("Stop", 2), ("Create", 5)]


def test_one_report_may_pass_several_rungs() -> None:
    played = SearchRun()
    assert played.report(1, 0.5, 9) == [("Stop", 1), ("Create", 5)]
    assert played.report(2, 0.6, 9) == [("Stop", 2), ("Create", 6)]
    rungs = played.search.snapshot()["method"]["rungs"]
    assert [len(unpack(losses)) for losses in rungs] == [2, 1, 1]


def test_larger_is_better_reverses_the_order() -> None:
    played = SearchRun(smaller_is_better=False)
    played.report(1, 0.5)
    assert played.report(2, 0.6) == []
    assert played.report(3, 0.4) == [("Stop", 3), ("Create", 5)]


@pytest.mark.parametrize("loss", [float("nan"), "NaN", "Infinity", float("inf")])
def test_nan_metric_is_worse_than_any_number(loss: Any) -> None:
    played = SearchRun()
    played.report(1, 1e300)
    assert played.report(2, loss) == [("Stop", 2), ("Create", 5)]


@pytest.mark.parametrize("value", [None, "0.5", True, [0.5], {}])
def test_a_metric_that_is_not_numeric_fails_with_trial_and_name(value: Any) -> None:
    played = SearchRun()
    (fail,) = played.report(1, value)
    assert isinstance(fail, Fail)
    assert "'loss'" in fail.reason
    assert played.ids[0] in fail.reason
    assert played.search.over


def test_a_missing_metric_fails_with_the_names_of_those_that_were_reported() -> None:
    played = SearchRun()
    (fail,) = played.fold(Validated(played.ids[0], {"batches": 1, "accuracy": 0.5}))
    assert isinstance(fail, Fail)
    assert "metric 'loss' was not reported; reported: accuracy, batches; report it" in fail.reason


def test_a_missing_time_metric_fails_with_its_name() -> None:
    played = SearchRun()
    (fail,) = played.fold(Validated(played.ids[0], {"loss": 0.5}))
    assert "'batches' was not reported" in fail.reason


def test_a_misspelt_metric_fails_with_the_most_similar_name() -> None:
    played = SearchRun(metric="validation_loss")
    (fail,) = played.fold(Validated(played.ids[0], {"batches": 1, "val_loss": 0.5}))
    assert isinstance(fail, Fail)
    assert "reported: batches, val_loss; did you mean 'val_loss'?" in fail.reason


def test_a_time_that_is_not_a_number_cannot_pass_rungs() -> None:
    (fail,) = SearchRun().report(1, 0.5, "NaN")
    assert "NaN" in fail.reason


def test_reports_of_a_stopped_trial_are_ignored() -> None:
    played = SearchRun()
    played.report(1, 0.1)
    played.report(2, 0.9)
    assert played.report(2, 0.01, 9) == []
    assert played.report(2, None) == []
    assert played.early(2, ExitReason.ERRORED) == []


def test_failed_trial_counts_as_the_worst_and_is_replaced() -> None:
    played = SearchRun()
    assert played.early(1, ExitReason.ERRORED) == [("Create", 5)]
    assert played.report(2, 1e9) == []
    assert played.report(3, 2e9) == [("Stop", 3), ("Create", 6)]


def test_invalid_trial_is_removed_from_rungs_and_replaced() -> None:
    played = SearchRun(max_trials=4)
    played.report(1, 0.1)
    played.report(2, 0.9)
    assert played.early(1, ExitReason.INVALID_HP) == [("Stop", 1), ("Create", 5)]
    assert played.report(3, 0.5) == [], "0.1 no longer counts"


def test_exited_trial_is_replaced() -> None:
    played = SearchRun(max_trials=5)
    assert played.exit(1) == [("Create", 5)]
    assert played.exit(2) == []


def test_search_shuts_down_after_all_trials_are_closed() -> None:
    played = SearchRun(max_trials=2, max_concurrent_trials=2)
    played.report(1, 0.5)
    played.report(2, 0.6)
    assert played.exit(1) == []
    assert played.exit(2) == [Shutdown()]


def test_progress_grows_with_rung_0_and_then_with_completed_trials() -> None:
    played = SearchRun(max_trials=4)
    played.report(1, 0.5)
    played.report(2, 0.4)
    assert played.search.progress({}) == pytest.approx(2 / (1.2 * 4))
    played.report(3, 0.6)
    played.report(4, 0.6)
    assert played.search.progress({}) == pytest.approx(4 / (1.2 * 4))
    for trial in (1, 2, 3, 4):
        played.exit(trial)
    assert played.search.progress({}) == 1


def test_stop_once_by_length_sends_every_next_length() -> None:
    played = SearchRun(
        time_metric=None, max_time=None, max_length={"batches": 9000}, stop_once=True
    )
    assert played.fold(OperationCompleted(played.ids[0], 1000, 0.5)) == [("TrainTo", 1, 3000)]
    assert played.fold(OperationCompleted(played.ids[1], 1000, 0.9)) == [
        ("Stop", 2),
        ("Create", 5),
        ("TrainTo", 5, 1000),
    ]


def lengths(curve: Any = None, **fields: Any) -> dict[int, int]:
    """Return how many trials trained for each length, one report after the other."""
    order: dict[int, int] = {}

    def by_creation(hparams: Mapping[str, Any], seed: int, length: float) -> float:
        return float(order.setdefault(seed, len(order)))

    simulation = simulate({**ASHA, **fields}, SPACE, 0, curve or by_creation)
    counts = Counter(int(trial.length) for trial in simulation.trials.values())
    return dict(sorted(counts.items()))


def test_only_the_first_trial_continues_if_later_ones_are_worse() -> None:
    worse = {"max_time": 900, "max_trials": 10, "max_concurrent_trials": 1}
    assert lengths(**worse) == {100: 9, 900: 1}
    assert lengths(**worse, smaller_is_better=False) == {900: 10}


def test_stop_once_by_length_has_the_published_outcome() -> None:
    once: dict[str, Any] = {"time_metric": None, "max_time": None, "max_length": {"batches": 9000}}
    once = {**once, "stop_once": True, "max_trials": 12, "max_concurrent_trials": 1}
    assert lengths(**once) == {1000: 11, 9000: 1}
    assert lengths(**once, smaller_is_better=False) == {9000: 12}


@pytest.mark.parametrize(
    ("max_trials", "divisor", "rungs", "trials"),
    [
        (20, 3, [3, 2, 1], [12, 5, 3]),
        (50, 3, [4, 3], [35, 15]),
        (50, 4, [3, 2], [37, 13]),
        (100, 4, [4, 3, 2], [70, 22, 8]),
        (2, 4, [3, 2, 1], [1, 1]),
    ],
)
def test_brackets_share_the_trials(
    max_trials: int, divisor: int, rungs: list[int], trials: list[int]
) -> None:
    assert bracket_trials(max_trials, divisor, rungs) == trials


@pytest.mark.parametrize(
    ("at_once", "divisor", "trials", "expected"),
    [
        (0, 3, [9, 3, 1], [3, 3, 3]),
        (0, 4, [40, 10], [10, 10]),
        (11, 3, [9, 3, 1], [4, 4, 3]),
        (1, 3, [9, 3, 1], [1, 1, 1]),
    ],
)
def test_brackets_share_the_concurrency(
    at_once: int, divisor: int, trials: list[int], expected: list[int]
) -> None:
    assert bracket_concurrency(at_once, divisor, trials) == expected


def adaptive(**fields: Any) -> dict[str, Any]:
    base = {"name": "adaptive_asha", "metric": "loss", "time_metric": "batches", "max_rungs": 5}
    return {**base, **fields}


@pytest.mark.parametrize(
    ("fields", "brackets"),
    [
        (
            {"max_time": 100, "max_trials": 10, "max_concurrent_trials": 2, "divisor": 4},
            [Bracket(2, 7, 1), Bracket(1, 3, 1)],
        ),
        (
            {
                "mode": "conservative",
                "max_time": 1000,
                "divisor": 3,
                "max_trials": 10,
                "max_concurrent_trials": 5,
            },
            [Bracket(3, 7, 2), Bracket(2, 2, 2), Bracket(1, 1, 1)],
        ),
        (
            {"mode": "aggressive", "max_time": 1000, "divisor": 3, "max_trials": 10},
            [Bracket(3, 10, 16)],
        ),
        (
            {"bracket_rungs": [1, 3], "max_time": 81, "divisor": 3, "max_trials": 8},
            [Bracket(3, 6, 8), Bracket(1, 2, 8)],
        ),
    ],
)
def test_mode_determines_the_brackets(fields: dict[str, Any], brackets: list[Bracket]) -> None:
    assert brackets_of(adaptive(**fields)) == brackets


def test_adaptive_asha_with_ever_worse_trials_has_the_published_outcome() -> None:
    fields = adaptive(max_time=90, divisor=3, max_trials=9, max_concurrent_trials=3)
    assert lengths(**fields, num_rungs=None) == {10: 5, 30: 2, 90: 2}


def test_adaptive_progress_is_the_mean_of_its_brackets() -> None:
    fields = adaptive(max_time=100, max_trials=10, max_concurrent_trials=2, divisor=4)
    played = SearchRun(**fields)
    played.report(2, 0.5, 100)  # the second bracket: one rung, three trials
    assert played.search.progress({}) == pytest.approx((0 + 1 / (1.2 * 3)) / 2)


def test_observed_trials_are_those_of_the_simulation() -> None:
    trials: list[SimulatedTrial] = []
    simulation = simulate(ASHA, SPACE, 0, observe=lambda work, trial: trials.append(trial))
    assert {id(trial) for trial in trials} == {id(trial) for trial in simulation.trials.values()}
