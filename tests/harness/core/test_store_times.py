"""The time of a checkpoint is measured, and compared with the time that a preemption leaves."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from determined import core
from determined.core._store_times import StoreTimes

from tests.support.fake_master import FakeMaster

MIB = 1024 * 1024
Enter = Callable[..., dict[str, str]]


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def times(clock: Clock) -> StoreTimes:
    """Times of a run that has stored 300 MiB in 60 seconds."""
    times = StoreTimes(clock)
    times.begin("first")
    clock.now += 60
    times.end("first", 300 * MIB, 40)
    return times


def test_too_short_time_is_a_warning_with_the_figures(
    times: StoreTimes, caplog: pytest.LogCaptureFixture
) -> None:
    times.seconds_left = lambda: 28.0
    times.begin("second")
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage() == (
        "this run ends in 28 s, but a checkpoint took 60.0 s (300.0 MiB at 5.0 MiB/s): it will hardly be complete, "
        "and the trial then continues from checkpoint first of step 40"
    )


def test_sufficient_time_is_logged_without_a_warning(
    times: StoreTimes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "determined.core")
    times.seconds_left = lambda: 118.0
    times.begin("second")
    (record,) = caplog.records
    assert record.levelno == logging.INFO
    assert "ends in 118 s; a checkpoint took 60.0 s" in record.getMessage()


def test_run_that_is_not_preempted_logs_nothing(
    times: StoreTimes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "determined.core")
    times.begin("second")
    assert not times.has_no_time_for_another()
    assert not caplog.records


@pytest.mark.parametrize(("left_s", "no_time"), [(101.0, False), (99.0, True)])
def test_another_checkpoint_needs_the_rest_of_the_unfinished_one_too(
    times: StoreTimes, clock: Clock, left_s: float, no_time: bool
) -> None:
    times.seconds_left = lambda: left_s
    times.begin("second")
    clock.now += 20
    assert times.has_no_time_for_another() is no_time


def test_unfinished_first_checkpoint_counts_by_its_present_time(clock: Clock) -> None:
    times = StoreTimes(clock)
    times.seconds_left = lambda: 28.0
    times.begin("first")
    clock.now += 20
    assert not times.has_no_time_for_another()
    clock.now += 20
    assert times.has_no_time_for_another()


def test_failed_checkpoint_is_not_waited_for(times: StoreTimes, clock: Clock) -> None:
    times.seconds_left = lambda: 1.0
    times.begin("second")
    times.forget("second")
    assert not times.has_no_time_for_another()


def test_trial_knows_the_seconds_that_the_agent_sends(
    master: FakeMaster, on_cluster: Enter, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    on_cluster()
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "weights").write_bytes(b"w" * MIB)
    with core.init() as context:
        assert context.preempt.seconds_left() is None
        first = context.checkpoint.upload(tmp_path / "source", {"steps_completed": 4})
    master.seconds_left = 0.0
    master.preempt.set()
    with core.init() as context:
        assert context.preempt.should_preempt()
        assert context.preempt.seconds_left() == 0.0
        times: Any = context.checkpoint._times
        times.last = None
        context.checkpoint.upload(tmp_path / "source", {"steps_completed": 5})
        last = times.last
        assert last is not None
        assert (last.step, last.size > MIB) == (5, True)
        context.checkpoint.upload(tmp_path / "source", {"steps_completed": 6})
    assert last.storage_id != first
    assert f"continues from checkpoint {last.storage_id} of step 5" in caplog.text
