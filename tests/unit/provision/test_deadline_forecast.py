"""Simulated runs before an experiment with a deadline is created."""

from dataclasses import replace

import pytest
from det_controlplane.core.provision import deadline_forecast
from det_controlplane.core.provision.deadline_forecast import forecast
from det_controlplane.core.provision.deadline_outlook import on_time_probability
from det_controlplane.core.provision.deadline_values import cost_table
from det_controlplane.core.provision.spot_spells import EndCounts, SpotOffer
from det_controlplane.core.provision.work_left import RESERVE


@pytest.fixture(autouse=True)
def _few_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadline_forecast, "RUNS", 20)


STEADY = SpotOffer("steady", 0.4, True, 100.0, EndCounts(0, 50), EndCounts(0, 0))
RARE = SpotOffer("rare", 0.4, False, 0.0, EndCounts(50, 1), EndCounts(0, 50))


def test_steady_offer_costs_about_its_price() -> None:
    result = forecast(20, 10, 0.25, [STEADY])
    # The spread is the error of the estimate.
    assert 0.4 * 8 < result.least_h < 0.4 * 10.25 < result.most_h < result.on_demand_h
    assert result.on_time == 1


def test_work_that_takes_longer_than_its_estimate_costs_the_price_on_demand() -> None:
    result = forecast(10.3, 10, 0.25, [STEADY])
    assert result.most_h > result.on_demand_h
    assert result.on_time == pytest.approx(0.5, abs=0.2)


@pytest.mark.parametrize("left_h", [10.5, 11.2, 12.0])
def test_forecast_and_outlook_give_about_the_same_chance(
    monkeypatch: pytest.MonkeyPatch, left_h: float
) -> None:
    monkeypatch.setattr(deadline_forecast, "RUNS", 300)
    for offer in (RARE, replace(RARE, is_available=True)):
        chance = on_time_probability(left_h - 0.25, RESERVE * 10)
        assert forecast(left_h, 10, 0.25, [offer]).on_time == pytest.approx(chance, abs=0.08)


def test_offer_that_is_rarely_there_saves_little() -> None:
    rare, steady = forecast(14, 10, 0.25, [RARE]), forecast(14, 10, 0.25, [STEADY])
    assert rare.least_h > 2 * steady.least_h
    assert rare.most_h > 1.2 * steady.most_h


def test_equal_arguments_give_equal_results() -> None:
    assert forecast(14, 10, 0.25, [RARE]) == forecast(14, 10, 0.25, [RARE])


def test_runs_share_their_value_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadline_forecast, "RUNS", 100)
    cost_table.cache_clear()
    forecast(14, 10, 0.25, [RARE, STEADY])
    # A table for each offer, phase of the other offer, and chance of another offer.
    assert cost_table.cache_info().misses <= 12
