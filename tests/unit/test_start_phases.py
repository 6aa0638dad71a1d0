"""The phases of a start, and their quantiles over many starts."""

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
from det_controlplane.core.trials.start_phases import StartTimes, phases, summarized

BEGIN = datetime(2026, 11, 29, 12, tzinfo=timezone.utc)


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


RENTED = StartTimes(
    BEGIN,
    machine_requested_at=at(2),
    machine_launched_at=at(5),
    machine_booted_at=at(20),
    machine_joined_at=at(65),
    assigned_at=at(66),
    image_ready_at=at(96),
    started_at=at(98),
    first_report_at=at(110),
    usd_hour=3.6,
)


def test_start_on_a_rented_machine_has_all_phases() -> None:
    names = [phase.name for phase in phases(RENTED)]
    assert names == [
        "decision",
        "rent",
        "boot",
        "join",
        "assignment",
        "image",
        "container",
        "first report",
    ]
    assert [phase.seconds for phase in phases(RENTED)] == [2, 3, 15, 45, 1, 30, 2, 12]


def test_only_the_time_of_a_rented_machine_costs_money() -> None:
    usd = {phase.name: phase.usd for phase in phases(RENTED)}
    assert usd["decision"] == usd["rent"] == 0
    assert sum(usd.values()) == pytest.approx(105 * 3.6 / 3600)


def test_machine_of_an_older_agent_joins_from_the_launch_on() -> None:
    older = replace(RENTED, machine_booted_at=None)
    seconds = {phase.name: phase.seconds for phase in phases(older)}
    assert "boot" not in seconds
    assert seconds["join"] == 60


def test_kernel_that_starts_before_the_cloud_answers_shortens_no_phase() -> None:
    early = replace(RENTED, machine_booted_at=at(4))
    seconds = {phase.name: phase.seconds for phase in phases(early)}
    assert (seconds["rent"], seconds["boot"], seconds["join"]) == (3, 0, 60)


def test_start_on_a_joined_machine_waits_for_slots_only() -> None:
    static = StartTimes(BEGIN, assigned_at=at(4), image_ready_at=at(4), started_at=at(5))
    assert [(phase.name, phase.seconds) for phase in phases(static)] == [
        ("decision", 4),
        ("image", 0),
        ("container", 1),
    ]


def test_loading_data_is_a_phase_of_its_own() -> None:
    start = StartTimes(
        BEGIN, assigned_at=at(4), image_ready_at=at(5), data_ready_at=at(65), started_at=at(66)
    )
    assert [(phase.name, phase.seconds) for phase in phases(start)] == [
        ("decision", 4),
        ("image", 1),
        ("data", 60),
        ("container", 1),
    ]


def test_quantiles_are_values_of_starts() -> None:
    starts = [StartTimes(BEGIN, assigned_at=at(n)) for n in range(1, 101)]
    (decision,) = summarized(starts)
    assert tuple(decision) == ("decision", 100, (50, 95), (0, 0))
    assert summarized([]) == []


def test_total_counts_only_starts_that_reported() -> None:
    (*_, total) = summarized([RENTED, StartTimes(BEGIN, assigned_at=at(1))])
    assert total[:3] == ("total", 1, (110, 110))


def test_quantiles_of_costs_are_in_dollars() -> None:
    dearer = replace(RENTED, usd_hour=36.0)
    usd = {summary.name: summary.usd for summary in summarized([RENTED, dearer])}
    assert usd["image"] == pytest.approx((0.03, 0.3))
    assert usd["total"] == pytest.approx((0.105, 1.05))
