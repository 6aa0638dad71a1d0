"""Histories of experiments with a deadline: `SIM_SEEDS=200 SIM_FIRST_SEED=1` plays more of them."""

import os

import pytest
from det_controlplane.core.provision.deadline_model import DeadlineDecision

from tests.support.thorough import often
from tests.world.deadline_world import DeadlineWorld

_FIRST = int(os.environ.get("SIM_FIRST_SEED", "1"))
_SEEDS = int(os.environ.get("SIM_SEEDS", often(12, 40)))


@pytest.mark.parametrize("seed", range(_FIRST, _FIRST + _SEEDS))
def test_deadline_that_machines_on_demand_can_meet_is_met(seed: int) -> None:
    assert DeadlineWorld(seed).play() >= 0


def test_worlds_use_both_kinds_of_machines() -> None:
    capacities = {kind for seed in range(1, 7) for kind in _capacities(seed)}
    assert capacities == {"spot", "on-demand"}


def _capacities(seed: int) -> list[str]:
    world = DeadlineWorld(seed)
    world.play()
    return world.capacities


def test_worlds_notice_work_that_may_use_any_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last chance then takes spot machines, which are cheaper, and loses them again."""
    monkeypatch.setattr(DeadlineDecision, "capacity", "")
    assert any(DeadlineWorld(seed).play() < 0 for seed in (4, 7))
