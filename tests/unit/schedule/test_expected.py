"""Expected starts of waiting jobs, from the progress of running ones."""

import pytest
from det_controlplane.core.schedule import (
    JobProgress,
    PoolSettings,
    can_expect_starts,
    expected_starts,
)

HALF_IN_100_S = JobProgress(0.5, 100)  # another 100 s


def test_expected_start_is_the_end_of_jobs_ahead() -> None:
    running = [(JobProgress(0.25, 100), 2), (HALF_IN_100_S, 2)]
    waiting = [("first", 2), ("second", 4), ("third", 5)]
    assert expected_starts(0, running, waiting) == {"first": 100, "second": 300}


def test_job_without_progress_gives_no_expected_start() -> None:
    running = [(JobProgress(0.001, 100), 2), (HALF_IN_100_S, 2)]
    assert expected_starts(0, running, [("small", 2), ("large", 6)]) == {"small": 100}


def test_job_waiting_for_other_reasons_has_no_expected_start() -> None:
    assert expected_starts(2, [], [("held", 1)]) == {}


@pytest.mark.parametrize(
    ("settings", "max_slots_per_launch"),
    [
        (PoolSettings(preemption=True), None),
        (PoolSettings(scheduler="fair_share"), None),
        (PoolSettings(), 8),
    ],
    ids=str,
)
def test_jobs_of_pools_with_changing_size_have_no_expected_start(
    settings: PoolSettings, max_slots_per_launch: int | None
) -> None:
    assert can_expect_starts(PoolSettings(), None)
    assert not can_expect_starts(settings, max_slots_per_launch)
