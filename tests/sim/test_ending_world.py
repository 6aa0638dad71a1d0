"""Histories of searches that end early: `SIM_SEEDS=20 SIM_FIRST_SEED=1` plays more of them."""

import os
from collections.abc import Sequence

import pytest
from det_controlplane.core.search import Action, EndReason, Search
from det_controlplane.core.search.asha import StoppingAsha

from tests.support.thorough import often
from tests.world.ending_world import CostWorld, GainWorld
from tests.world.hosts import Hosts
from tests.world.violation import Violation

_FIRST = int(os.environ.get("SIM_FIRST_SEED", "1"))
_SEEDS = int(os.environ.get("SIM_SEEDS", often(1, 3)))
_SEARCHES_END = 1  # In some worlds, users leave the search paused.


@pytest.mark.parametrize("seed", range(_FIRST, _FIRST + _SEEDS))
def test_searches_with_a_small_gain_complete(seed: int, hosts: Hosts) -> None:
    world = GainWorld(seed, hosts)
    world.run()
    assert set(world.reasons) == {EndReason.GAIN_BELOW} or seed != _SEARCHES_END


@pytest.mark.parametrize("seed", range(_FIRST, _FIRST + _SEEDS))
def test_searches_above_their_cost_complete(seed: int, hosts: Hosts) -> None:
    world = CostWorld(seed, hosts)
    world.run()
    assert set(world.reasons) == {EndReason.COST_ABOVE} or seed != _SEARCHES_END


def test_worlds_notice_trials_that_start_after_the_end(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StoppingAsha, "_replace", StoppingAsha._create)
    with pytest.raises(Violation, match=r"Create.* after Ending"):
        GainWorld(1, hosts).run()


def test_worlds_notice_trials_that_continue_after_the_end(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    exceed_cost = Search._exceed_cost

    def stop_one(search: Search, event: object) -> Sequence[Action]:
        return exceed_cost(search, event)[:1]  # type: ignore[arg-type]

    monkeypatch.setattr(Search, "_exceed_cost", stop_one)
    with pytest.raises(Violation, match="continue although Ending"):
        CostWorld(1, hosts).run()
