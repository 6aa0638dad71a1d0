"""The cost page is the output of the model, and the model meets the stated goals."""

from dataclasses import replace
from pathlib import Path

import pytest
from det_cli.deployment import prices
from det_controlplane.core.provision import catalog
from det_controlplane.core.provision.warm import WarmPolicy

from bench import cost
from bench.reference_month import DAYS, Outcome, played

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cost.md"


@pytest.fixture(scope="module")
def month() -> dict[str, Outcome]:
    return played(DAYS)


def test_page_is_the_output_of_the_model(
    month: dict[str, Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    warm_month = played(DAYS, warm=WarmPolicy(cost.WARM_USD_DAY))
    monkeypatch.setattr(cost, "played", lambda days, warm=None: warm_month if warm else month)
    assert PAGE.read_text() == cost.text(), "python -m bench.cost > docs/cost.md"


def test_spot_with_fallback_does_the_same_work_for_less(month: dict[str, Outcome]) -> None:
    often, scarce, on_demand = (
        month[name] for name in ("spot, often available", "spot, scarce", "on demand")
    )
    assert often.trials == scarce.trials == on_demand.trials > 1000
    assert scarce.reclaims > often.reclaims > 20, "the market reclaims machines"
    assert scarce.refusals > often.refusals > 50, "and often has no capacity"
    assert often.usd <= cost.SPOT_LIMIT * on_demand.usd
    assert often.usd < scarce.usd < on_demand.usd


def test_idle_cluster_costs_at_most_the_stated_limits() -> None:
    stack = cost.stack()
    assert prices.aws_idle(stack.aws).usd <= cost.IDLE_LIMIT_USD["aws"]
    assert prices.aws_idle(replace(stack.aws, relay=True)).usd <= cost.IDLE_LIMIT_USD["aws"]
    assert prices.gcp_idle(stack.gcp).usd <= cost.IDLE_LIMIT_USD["gcp"]


def test_model_prices_the_resources_of_terraform() -> None:
    stack = cost.stack()
    assert (stack.aws, stack.gcp) == (prices.AwsStack(), prices.GcpStack())
    assert prices.PRICES_OF == catalog.LIST_OF
