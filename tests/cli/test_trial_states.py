"""The states and times of trials in summaries and tables."""

import pytest

from tests.cli.conftest import Det
from tests.support.fake_cluster import FakeCluster


def summary_row(det: Det, label: str) -> str:
    """Return the value of a row of `det trial describe`."""
    lines = det("trial", "describe", 10).out.splitlines()
    (row,) = [line for line in lines if line.startswith(label.ljust(12))]
    return row[12:]


@pytest.mark.parametrize(
    "words", [["e", "list-trials", 1], ["trial", "describe", 10], ["e", "describe", 1]]
)
def test_trials_that_wait_at_a_rung_are_not_queued(
    cluster: FakeCluster, det: Det, words: list[str]
) -> None:
    cluster.add(1)
    cluster.trials[10].update(state="STATE_QUEUED", waitsForSearch=True)
    out = det(*words).out
    assert "waiting" in out.lower()
    assert "queued" not in out.lower()


def test_trial_ran_from_its_first_run(cluster: FakeCluster, det: Det) -> None:
    cluster.add(1)
    cluster.trials[10]["firstRunTime"] = "2026-11-20T10:20:00Z"
    assert summary_row(det, "ran") == "2026-11-20 10:20:00+0000, for 1h 30m, in pool default"


def test_trial_without_a_run_has_not_run(cluster: FakeCluster, det: Det) -> None:
    cluster.add(1)
    cluster.trials[10].update(firstRunTime=None, totalBatchesProcessed=0, wallClockTime=0.0)
    assert summary_row(det, "ran") == "not yet, created 2026-11-20 10:00:00+0000, in pool default"


def test_unmanaged_trial_ran_from_its_creation(cluster: FakeCluster, det: Det) -> None:
    """The cluster has no runs of a trial that only reports to it."""
    cluster.add(1)
    cluster.trials[10].update(firstRunTime=None, wallClockTime=0.0)
    assert summary_row(det, "ran") == "2026-11-20 10:00:00+0000, in pool default"
