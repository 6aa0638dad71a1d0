"""Safety of warm machines: their cost has a bound, and they exist only where the pool chooses them."""

import pytest
from det_controlplane.core.provision import warm
from det_controlplane.core.provision.warm import WarmPolicy

from tests.world.warm_world import WarmWorld

SEEDS = range(5)
USD_DAY = 4.0


def played(seed: int) -> WarmWorld:
    return WarmWorld(seed, WarmPolicy(USD_DAY, waiting_usd_hour=200.0)).play()


@pytest.mark.parametrize("seed", SEEDS)
def test_warm_machines_never_cost_more_than_their_bound(seed: int) -> None:
    assert max(played(seed).cost_of_days.values()) <= USD_DAY


def test_worlds_keep_warm_machines_and_spend_most_of_the_money() -> None:
    worlds = [
        WarmWorld(seed, WarmPolicy(USD_DAY, waiting_usd_hour=200.0)).play() for seed in range(6)
    ]
    assert max(world.most_warm for world in worlds) >= 2
    assert max(max(world.cost_of_days.values()) for world in worlds) > USD_DAY / 2


@pytest.mark.parametrize("seed", range(2))
def test_pool_without_the_option_keeps_no_machine_warm(seed: int) -> None:
    world = WarmWorld(seed, None).play()
    # A minute of an idle machine that ends is no warm machine.
    assert max(world.cost_of_days.values()) < 1.0
    assert not any(world.held_machines)


def test_held_pool_keeps_no_machine_warm() -> None:
    worlds = [played(seed) for seed in SEEDS]
    assert any(world.held_machines for world in worlds)
    assert not any(sum(world.held_machines) for world in worlds)


def plan_without_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm, "planned", lambda *_: [3] * 24)


def test_ledger_bounds_the_cost_of_any_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    plan_without_a_bound(monkeypatch)
    for seed in SEEDS:
        assert max(played(seed).cost_of_days.values()) <= USD_DAY


def test_worlds_notice_a_ledger_that_counts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    plan_without_a_bound(monkeypatch)
    monkeypatch.setattr(warm.WarmLedger, "costing", lambda ledger, *_: ledger)
    assert any(max(played(seed).cost_of_days.values()) > USD_DAY for seed in SEEDS)
