"""Simulated runs before an experiment with a deadline is created."""

import pytest
from det_controlplane.core.provision import deadline_forecast
from det_controlplane.core.provision.deadline_forecast import forecast
from det_controlplane.core.provision.deadline_values import cost_table
from det_controlplane.core.provision.spot_spells import EndCounts, SpotOffer


@pytest.fixture(autouse=True)
def _few_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadline_forecast, "RUNS", 20)


STEADY = SpotOffer("steady", 0.4, True, 100.0, EndCounts(0, 50), EndCounts(0, 0))
RARE = SpotOffer("rare", 0.4, False, 0.0, EndCounts(50, 1), EndCounts(0, 50))


def test_steady_offer_costs_its_price() -> None:
    result = forecast(20, 10, 0.25, [STEADY])
    assert result.least_h == pytest.approx(0.4 * 10.25, rel=0.01)
    assert result.on_time == 1


def test_work_without_slack_costs_the_price_on_demand() -> None:
    result = forecast(10.3, 10, 0.25, [STEADY])
    assert result.least_h == result.most_h == pytest.approx(result.on_demand_h)


def test_offer_that_is_rarely_there_saves_little() -> None:
    assert forecast(14, 10, 0.25, [RARE]).least_h > forecast(14, 10, 0.25, [STEADY]).most_h


def test_equal_arguments_give_equal_results() -> None:
    assert forecast(14, 10, 0.25, [RARE]) == forecast(14, 10, 0.25, [RARE])


def test_runs_share_their_value_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadline_forecast, "RUNS", 100)
    cost_table.cache_clear()
    forecast(14, 10, 0.25, [RARE, STEADY])
    # A table for each offer, phase of the other offer, and chance of another offer.
    assert cost_table.cache_info().misses <= 12
