"""Machine types and prices of Google Compute Engine."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from det_controlplane.core.provision.offers import Capacity, Scope
from det_controlplane.core.provision.prices import WantedType
from det_controlplane.ports.compute import Place, Unreachable
from det_provisioner_gcp.api import GceApi
from det_provisioner_gcp.prices import GceMarket
from det_provisioner_gcp.skus import fetch_skus, series_of
from google.auth.credentials import AnonymousCredentials

from tests.support.fake_gce import FakeGce, serving

REGION = "us-central1"
SPOT, ON_DEMAND = Capacity.SPOT, Capacity.ON_DEMAND


@pytest.fixture
def fake() -> FakeGce:
    fake = FakeGce()
    fake.most_per_page = 3
    return fake


@pytest.fixture
def market(fake: FakeGce) -> Iterator[GceMarket]:
    with serving(fake) as address:
        credentials = AnonymousCredentials()
        api = GceApi(address, credentials)
        yield GceMarket(api, "acme", lambda: fetch_skus(address, credentials))


def sku(
    description: str, usd: str, *, unit: str = "h", region: str = REGION, usage: str = "OnDemand"
) -> dict[str, Any]:
    """Return a price in the format of the price list: whole dollars and billionths."""
    units, nanos = divmod(int(Decimal(usd) * 10**9), 10**9)
    price = {"currencyCode": "USD", "units": str(units), "nanos": nanos}
    expression = {"usageUnit": unit, "tieredRates": [{"startUsageAmount": 0, "unitPrice": price}]}
    return {
        "description": description,
        "category": {"resourceFamily": "Compute", "usageType": usage},
        "serviceRegions": [region],
        "pricingInfo": [{"pricingExpression": expression}],
    }


def priced(market: GceMarket, *names: str) -> dict[tuple[str, Capacity], Decimal]:
    """Return the prices by type and capacity."""
    answer = market.read(Place(REGION, {}), [WantedType(name) for name in names])
    return {(p.scope.machine_type, Capacity(p.scope.capacity)): p.usd_hour for p in answer.prices}


def test_price_is_the_sum_of_the_machines_parts(fake: FakeGce, market: GceMarket) -> None:
    fake.skus = [
        sku("G2 Instance Core running in Netherlands", "9", region="europe-west4"),
        sku("Commitment v1: G2 Core in Americas for 1 Year", "1", usage="Commit1Yr"),
        sku("G2 Custom Instance Core running in Americas", "7"),
        sku("Nvidia L4 GPU attached to DWS Defined Duration VMs running in Americas", "0.1"),
        sku("G2 Instance Core running in Americas", "0.02"),
        sku("G2 Instance Ram running in Americas", "0.003", unit="GiBy.h"),
        sku("Nvidia L4 GPU running in Americas", "0.5"),
        sku("Spot Preemptible G2 Instance Core running in Americas", "0.01", usage="Preemptible"),
        sku("Spot Preemptible G2 Instance Ram running in Americas", "0.001", usage="Preemptible"),
        sku("Nvidia L4 GPU attached to Spot Preemptible VMs running in Americas", "0.2", usage="Preemptible"),
    ]  # fmt: skip
    assert priced(market, "g2-standard-8") == {
        ("g2-standard-8", SPOT): 8 * Decimal("0.01") + 32 * Decimal("0.001") + Decimal("0.2"),
        ("g2-standard-8", ON_DEMAND): 8 * Decimal("0.02") + 32 * Decimal("0.003") + Decimal("0.5"),
    }


def test_built_in_disks_are_part_of_the_price(fake: FakeGce, market: GceMarket) -> None:
    fake.skus = [
        sku("A2 Instance Core running in Americas", "0.03"),
        sku("A2 Instance Ram running in Americas", "0.004", unit="GiBy.h"),
        sku("Nvidia Tesla A100 GPU running in Americas", "3"),
        sku("Nvidia Tesla A100 80GB GPU running in Americas", "4"),
        sku("SSD backed Local Storage", "0.073", unit="GiBy.mo"),
    ]
    (price,) = priced(market, "a2-ultragpu-1g").values()
    disk = 375 * Decimal("0.0001")
    assert price == 12 * Decimal("0.03") + 170 * Decimal("0.004") + 4 + disk


def test_machine_with_an_unpriced_part_has_no_price(fake: FakeGce, market: GceMarket) -> None:
    fake.skus = [
        sku("N1 Predefined Instance Core running in Americas", "0.03"),
        sku("N1 Predefined Instance Ram running in Americas", "0.004", unit="GiBy.h"),
        sku("G2 Instance Core running in Americas", "0.02"),
    ]
    (name,) = priced(market, "n1-standard-8", "g2-standard-8")
    assert name == ("n1-standard-8", ON_DEMAND)


def test_types_with_a_separate_core_series_use_its_price() -> None:
    names = ("a3-megagpu-8g", "a3-highgpu-8g", "n2d-standard-8", "a3-ultragpu-8g")
    assert [series_of(n) for n in names] == ["a3plus", "a3", "n2d", "a3ultra"]


def test_silent_cloud_is_unreachable(fake: FakeGce, market: GceMarket) -> None:
    fake.silent = True
    with pytest.raises(Unreachable):
        market.read(Place(REGION, {}), [WantedType("g2-standard-8")])


def test_reads_types_zones_and_complete_prices_of_a_region(
    fake: FakeGce, market: GceMarket
) -> None:
    fake.skus = [
        sku("N1 Predefined Instance Core running in Americas", "0.03"),
        sku("N1 Predefined Instance Ram running in Americas", "0.004", unit="GiBy.h"),
        sku("Nvidia Tesla T4 GPU running in Americas", "0.35"),
    ]
    types = [
        WantedType("n1-standard-8", "nvidia-tesla-t4", 2),
        WantedType("g2-standard-8"),
        WantedType("x9-huge"),
    ]
    answer = market.read(Place(REGION, {}), types)
    (price,) = answer.prices
    name = "n1-standard-8+2xnvidia-tesla-t4"
    assert price.scope == Scope("gcp", REGION, "", name, ON_DEMAND.value)
    assert price.usd_hour == 8 * Decimal("0.03") + 30 * Decimal("0.004") + 2 * Decimal("0.35")
    assert (answer.types[name].zones, answer.types[name].slots) == (
        ("us-central1-a", "us-central1-b"), 2,
    )  # fmt: skip
    assert answer.types["g2-standard-8"].zones[-1] == "us-central1-c"
    assert answer.types["x9-huge"].zones == ()


def test_no_prices_are_requested_without_a_project(fake: FakeGce) -> None:
    with pytest.raises(Unreachable, match="`project` is missing"):
        GceMarket(GceApi("http://localhost:1", AnonymousCredentials()), "").read(Place(REGION, {}), [])  # fmt: skip


def test_zones_are_returned_if_the_price_list_is_denied(fake: FakeGce) -> None:
    def denied() -> Iterator[dict[str, Any]]:
        yield from ()
        raise Unreachable("Google Cloud does not tell its prices: 403")

    with serving(fake) as address:
        market = GceMarket(GceApi(address, AnonymousCredentials()), "acme", denied)
        answer = market.read(Place(REGION, {}), [WantedType("g2-standard-8")])
    assert (answer.prices, "403" in answer.problem) == ((), True)
    assert answer.types["g2-standard-8"].zones
