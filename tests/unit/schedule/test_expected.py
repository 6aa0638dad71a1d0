"""Expected starts of waiting jobs, from the progress of running ones."""

from typing import Any

import pytest
from det_controlplane.core.schedule import JobProgress, expected_starts

from tests.support.schedules import agents, pool, request, running

HALF_IN_100_S = JobProgress(0.5, 100)  # another 100 s


def test_expected_start_is_the_end_of_jobs_ahead() -> None:
    snapshot = pool(
        agents(4),
        running=[running("long", a1=2), running("short", a1=2)],
        pending=[request("first", 2), request("second", 2), request("third", 1)],
    )
    advances = {"long": JobProgress(0.25, 100), "short": HALF_IN_100_S}
    assert expected_starts(snapshot, advances) == {"first": 100, "second": 300}


def test_job_without_progress_gives_no_expected_start() -> None:
    snapshot = pool(
        agents(4),
        running=[running("silent", a1=2), running("known", a1=2)],
        pending=[request("small", 2), request("large", 4), request("behind", 1)],
    )
    advances = {"silent": JobProgress(0.001, 100), "known": HALF_IN_100_S}
    assert expected_starts(snapshot, advances) == {"small": 100}


def test_job_waiting_for_other_reasons_has_no_expected_start() -> None:
    snapshot = pool(agents(2), pending=[request("held", 1)])
    assert expected_starts(snapshot, {}) == {}


@pytest.mark.parametrize(
    "settings",
    [{"preemption": True}, {"scheduler": "fair_share"}, {"max_slots_per_launch": 8}],
    ids=str,
)
def test_jobs_of_pools_with_changing_size_have_no_expected_start(settings: dict[str, Any]) -> None:
    snapshot = pool(
        agents(2), running=[running("known", a1=2)], pending=[request("next", 2)], **settings
    )
    assert expected_starts(snapshot, {"known": HALF_IN_100_S}) == {}
