"""Pictures of an experiment, from the answers of the API."""

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
    "trials": [{"id": 1, "sentence": "trained to the end"}, {"id": 2, "sentence": ""}],
}  # fmt: skip
HPARAMS = {"lr": {"type": "log", "minval": -3}, "width": {"type": "const", "val": 8}}


def answer(searcher: "dict[str, Any] | None" = None, **more: Any) -> dict[str, Any]:
    config = {"searcher": {**SEARCHER, **(searcher or {})}, "hyperparameters": HPARAMS}
    return {"experiment": experiment(1, config=config, **more)}


def training(id: int, batches: int, best: "float | str | None", **more: Any) -> dict[str, Any]:
    told = {"totalBatches": batches, "metrics": {"avgMetrics": {"loss": best}}}
    state = more.pop("state", "STATE_RUNNING")
    return trial(
        id, 1, state=state, totalBatchesProcessed=batches, hparams={"lr": id / 10, "width": 8},
        searcherMetricValue=None, bestValidation=None if best is None else told,
        latestValidation=None if best is None else told, **more,
    )  # fmt: skip


def drawn(found: Experiment, room: int = 80) -> str:
    return "\n".join(plain(one) for one in screen.lines(found, room, START + 90))


TRIALS = [
    training(1, 480, 0.5, state="STATE_COMPLETED"),
    training(2, 120, 0.25),
    training(3, 30, None, state="STATE_QUEUED"),
]


def test_the_picture_tells_state_best_rungs_and_trials() -> None:
    running = answer(state="STATE_RUNNING", progress=0.42, endTime=None)
    text = drawn(experiment_of(running, TRIALS, searched=SEARCHED))
    assert text.splitlines()[0] == (
        "experiment 1  RUNNING  █████░░░░░░░ 42%  mnist-1                          1m 29s"
    )
    assert "3 of 16 trials: 1 running, 1 queued, 1 completed" in text
    assert "best loss 0.25  trial 2 after 120 batches" in text
    assert "rungs (batches)  30 ████████ 3  120 ██████ 2  480 ███ 1" in text
    assert [row.split()[0] for row in text.splitlines()[-3:]] == ["2", "3", "1"]


def test_only_hyperparameters_that_were_searched_are_shown() -> None:
    text = drawn(experiment_of(answer(), TRIALS), 200)
    assert "lr=0.2" in text
    assert "width=8" not in text


def test_a_metric_that_grows_is_best_at_its_largest() -> None:
    found = experiment_of(answer({"smaller_is_better": False}), TRIALS)
    assert found.best is not None
    assert found.best.id == 1


def test_trials_without_a_number_are_last_of_their_kind() -> None:
    told = [training(1, 30, "NaN"), training(2, 30, None), training(3, 30, 0.1)]
    found = experiment_of(answer(), told)
    assert [t.id for t in in_view(found.trials, found.search)] == [3, 1, 2]
    assert found.best is not None
    assert found.best.id == 3


def test_rungs_of_brackets_are_counted_together_and_none_are_made_up() -> None:
    found = experiment_of(answer(), TRIALS, searched=SEARCHED)
    assert [(r.length, r.arrived) for r in found.search.rungs] == [(30, 3), (120, 2), (480, 1)]
    # A cluster that does not tell what a search decided, or a search without rungs.
    assert experiment_of(answer(), TRIALS).search.rungs == ()


def test_a_trial_tells_what_the_search_decided() -> None:
    found = experiment_of(answer(), TRIALS, searched=SEARCHED)
    assert [t.reason for t in found.trials] == ["trained to the end", "", ""]
    waits = reasons_of([{"state": "QUEUED", "trialId": 1, "sentence": "needs 4 slots"}])
    assert experiment_of(answer(), TRIALS, waits, SEARCHED).trials[0].reason == "needs 4 slots"


def test_equal_reasons_are_told_once_with_their_trials() -> None:
    told = [{"state": "QUEUED", "trialId": id, "sentence": "needs 4 slots"} for id in range(1, 9)]
    reasons = reasons_of([*told, {"state": "RUNNING", "trialId": 9, "sentence": "runs on a"}])
    found = experiment_of(answer(state="STATE_RUNNING"), TRIALS, reasons)
    assert screen.waiting(found) == ["trials 1, 2, 3, 4, 5, 6 and 2 more: needs 4 slots"]
    assert "why: trials 1, 2, 3, 4, 5, 6 and 2 more: needs 4 slots" in drawn(found)


def test_a_cluster_without_reasons_still_tells_the_place_in_the_queue() -> None:
    told = {**answer(state="STATE_QUEUED"), "jobSummary": {"state": "", "jobsAhead": 2}}
    expected = ["waits in the queue of pool default, 2 jobs ahead"]
    assert screen.waiting(experiment_of(told, [])) == expected


def test_a_line_tells_the_same_without_a_terminal() -> None:
    told = screen.one_line(experiment_of(answer(state="STATE_RUNNING", progress=0.5), TRIALS))
    expected = "RUNNING 50%; 3 trials (1 running, 1 queued, 1 completed); best loss 0.25 (trial 2)"
    assert told == expected


NASTY = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
VALUES = st.none() | st.floats() | st.sampled_from(["NaN", "Infinity", "-Infinity", "odd"])


@given(
    NASTY, NASTY, st.lists(st.tuples(st.integers(0, 10**9), VALUES, NASTY), max_size=8),
    st.integers(20, 220), st.floats(0, 2) | st.none(),
)  # fmt: skip
def test_no_picture_is_wider_than_the_terminal_or_obeyed_by_it(
    name: str, metric: str, told: Sequence[tuple[int, Any, str]], room: int, progress: Any
) -> None:
    trials = [
        training(id, batches, value, state=f"STATE_{word}") | {"hparams": {word: word, "lr": 0.1}}
        for id, (batches, value, word) in enumerate(told, 1)
    ]
    reasons = reasons_of([{"state": "QUEUED", "trialId": 1, "sentence": name}])
    found = experiment_of(answer({"metric": metric}, name=name, progress=progress), trials, reasons)
    lines = screen.lines(found, room, START)
    for one in lines:
        assert all(c.isprintable() or c.isspace() for c in plain(one))
        assert not set(plain(one)) & set("\x1b\n\r\t\x9b")
    assert all(size_of(one) <= room for one in lines)
