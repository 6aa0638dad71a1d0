"""Rented machines that trials report as slow three times are replaced."""

import pytest
from det_controlplane.core.provision.model import Drain, DrainReason, Limits
from det_controlplane.core.provision.upkeep import inspect
from det_controlplane.core.trials.stragglers import is_slow_machine

from tests.support.provisioning import machine, spot

NOW = 1_000_000.0
DAY = 86_400.0


@pytest.mark.parametrize(
    ("ages", "slow"),
    [
        ((), False),
        ((0, 900), False),
        ((0, 900, 1800), True),
        ((0, 100, 200, 300), False),
        ((0, 900, DAY + 1), False),
        ((1, 601, 1201), True),
    ],
)
def test_three_reports_within_a_day_and_apart_from_each_other_make_a_machine_slow(
    ages: tuple[float, ...], slow: bool
) -> None:
    assert is_slow_machine([NOW - age for age in ages], NOW) is slow


def test_a_slow_machine_is_drained_and_counts_as_leaving() -> None:
    slow = machine("m1", spot(4, 1), slow_at=(NOW - 1800, NOW - 900, NOW), used_slots=1)
    usual = machine("m2", spot(4, 1), slow_at=(NOW,), used_slots=1)
    changes = inspect([slow, usual], Limits(), NOW)
    assert changes.drain == [Drain("m1", DrainReason.SLOW)]
    assert [staying.id for staying in changes.staying] == ["m2"]
