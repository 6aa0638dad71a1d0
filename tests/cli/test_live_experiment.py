"""The live view of an experiment, rendered from responses of the API."""

from collections.abc import Sequence
from typing import Any

from det_cli.live import experiment_screen as screen
from det_cli.live.experiment import Experiment, experiment_of, in_view, reasons_of
from det_cli.live.text import plain, size_of
from hypothesis import given
from hypothesis import strategies as st

from tests.support.fake_cluster import experiment, trial

START = 1_795_168_800.0  # 2026-11-20T10:00:00Z
SEARCHER = {
    "name": "adaptive_asha", "metric": "loss", "smaller_is_better": True, "max_trials": 16,
    "time_metric": "batches", "max_time": 480, "divisor": 4, "max_rungs": 3,
}  # fmt: skip
SEARCHED = {
    "unit": "batches",
    "brackets": [
        {"rungs": [{"length": 30, "arrived": 3}, {"length": 120, "arrived": 1}, {"length": 480, "arrived": 1}]},
        {"rungs": [{"length": 120, "arrived": 1}, {"length": 480, "arrived": 0}]},
    ],
    "trials": [{"id": 1, "sentence": "trained for all 9 batches"}, {"id": 2, "sentence": ""}],
}  # fmt: skip
HPARAMS = {"lr": {"type": "log", "minval": -3}, "width": {"type": "const", "val": 8}}


def answer(searcher: "dict[str, Any] | None" = None, **more: Any) -> dict[str, Any]:
    config = {"searcher": {**SEARCHER, **(searcher or {})}, "hyperparameters": HPARAMS}
    return {"experiment": experiment(1, config=config, **more)}


def training(id: int, batches: int, best: "float | str | None", **more: Any) -> dict[str, Any]:
    report = {"totalBatches": batches, "metrics": {"avgMetrics": {"loss": best}}}
    state = more.pop("state", "STATE_RUNNING")
    return trial(
        id, 1, state=state, totalBatchesProcessed=batches, hparams={"lr": id / 10, "width": 8},
        searcherMetricValue=None, bestValidation=None if best is None else report,
        latestValidation=None if best is None else report, **more,
    )  # fmt: skip


def drawn(view: Experiment, room: int = 80) -> str:
    return "\n".join(plain(one) for one in screen.lines(view, room, START + 90))


TRIALS = [
    training(1, 480, 0.5, state="STATE_COMPLETED"),
    training(2, 120, 0.25),
    training(3, 30, None, state="STATE_QUEUED"),
]


def test_view_shows_state_best_trial_rungs_and_trials() -> None:
    running = answer(state="STATE_RUNNING", progress=0.42, endTime=None)
    text = drawn(experiment_of(running, TRIALS, searched=SEARCHED))
    assert text.splitlines()[0] == (
        "experiment 1  RUNNING  █████░░░░░░░ 42%  mnist-1                          1m 29s"
    )
    assert "3 of 16 trials: 1 running, 1 queued, 1 completed" in text
    assert "best loss 0.25  trial 2 after 120 batches" in text
    assert "rungs (batches)  30 ████████ 3  120 ██████ 2  480 ███ 1" in text
    assert [row.split()[0] for row in text.splitlines()[-3:]] == ["2", "3", "1"]


def test_trials_that_the_searcher_stopped_are_counted_separately() -> None:
    stopped = training(4, 30, 0.9, state="STATE_COMPLETED", stoppedEarly=True)
    text = drawn(experiment_of(answer(), [TRIALS[0], stopped], searched=SEARCHED), 100)
    assert "2 of 16 trials: 1 completed, 1 stopped early" in text
    assert "STOPPED EARLY" in text.splitlines()[-1]


def test_trials_that_wait_at_a_rung_are_counted_separately() -> None:
    waits = training(4, 30, 0.9, state="STATE_QUEUED", waitsForSearch=True)
    view = experiment_of(answer(state="STATE_RUNNING"), [*TRIALS, waits], searched=SEARCHED)
    assert "4 of 16 trials: 1 running, 1 waiting, 1 queued, 1 completed" in drawn(view, 100)


def test_only_searched_hyperparameters_are_shown() -> None:
    text = drawn(experiment_of(answer(), TRIALS), 200)
    assert "lr=0.2" in text
    assert "width=8" not in text


def test_best_is_largest_if_larger_is_better() -> None:
    view = experiment_of(answer({"smaller_is_better": False}), TRIALS)
    assert view.best is not None
    assert view.best.id == 1


def test_trials_without_metric_are_sorted_last() -> None:
    trials = [training(1, 30, "NaN"), training(2, 30, None), training(3, 30, 0.1)]
    view = experiment_of(answer(), trials)
    assert [t.id for t in in_view(view.trials, view.search)] == [3, 1, 2]
    assert view.best is not None
    assert view.best.id == 3


def test_rungs_are_summed_over_brackets() -> None:
    view = experiment_of(answer(), TRIALS, searched=SEARCHED)
    assert [(r.length, r.arrived) for r in view.search.rungs] == [(30, 3), (120, 2), (480, 1)]
    # The response has no "searched" object for clusters that do not send it, and for searches without rungs.
    assert experiment_of(answer(), TRIALS).search.rungs == ()


def test_trial_shows_decision_of_the_search() -> None:
    view = experiment_of(answer(), TRIALS, searched=SEARCHED)
    assert [t.reason for t in view.trials] == ["trained for all 9 batches", "", ""]
    waits = reasons_of([{"state": "QUEUED", "trialId": 1, "sentence": "needs 4 slots"}])
    assert experiment_of(answer(), TRIALS, waits, SEARCHED).trials[0].reason == "needs 4 slots"


def test_equal_reasons_are_grouped() -> None:
    queued = [{"state": "QUEUED", "trialId": id, "sentence": "needs 4 slots"} for id in range(1, 9)]
    reasons = reasons_of([*queued, {"state": "RUNNING", "trialId": 9, "sentence": "runs on a"}])
    view = experiment_of(answer(state="STATE_RUNNING"), TRIALS, reasons)
    assert screen.waiting(view) == ["trials 1, 2, 3, 4, 5, 6 and 2 more: needs 4 slots"]
    assert "why: trials 1, 2, 3, 4, 5, 6 and 2 more: needs 4 slots" in drawn(view)


def test_queue_position_is_shown_without_reasons() -> None:
    queued = {**answer(state="STATE_QUEUED"), "jobSummary": {"state": "", "jobsAhead": 2}}
    expected = ["waits in the queue of pool default, 2 jobs ahead"]
    assert screen.waiting(experiment_of(queued, [])) == expected


def test_one_line_summary() -> None:
    summary = screen.one_line(experiment_of(answer(state="STATE_RUNNING", progress=0.5), TRIALS))
    expected = "RUNNING 50%; 3 trials (1 running, 1 queued, 1 completed); best loss 0.25 (trial 2)"
    assert summary == expected


NASTY = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
VALUES = st.none() | st.floats() | st.sampled_from(["NaN", "Infinity", "-Infinity", "odd"])


@given(
    NASTY, NASTY, st.lists(st.tuples(st.integers(0, 10**9), VALUES, NASTY), max_size=8),
    st.integers(20, 220), st.floats(0, 2) | st.none(),
)  # fmt: skip
def test_lines_fit_the_terminal_and_have_no_control_characters(
    name: str, metric: str, reports: Sequence[tuple[int, Any, str]], room: int, progress: Any
) -> None:
    trials = [
        training(id, batches, value, state=f"STATE_{word}") | {"hparams": {word: word, "lr": 0.1}}
        for id, (batches, value, word) in enumerate(reports, 1)
    ]
    reasons = reasons_of([{"state": "QUEUED", "trialId": 1, "sentence": name}])
    view = experiment_of(answer({"metric": metric}, name=name, progress=progress), trials, reasons)
    lines = screen.lines(view, room, START)
    for one in lines:
        assert all(c.isprintable() or c.isspace() for c in plain(one))
        assert not set(plain(one)) & set("\x1b\n\r\t\x9b")
    assert all(size_of(one) <= room for one in lines)
