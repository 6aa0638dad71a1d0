"""Machine types and prices of EC2, simulated by moto."""

import json
from decimal import Decimal

import pytest
from det_controlplane.core.provision.offers import Capacity
from det_controlplane.core.provision.prices import WantedType
from det_controlplane.ports.compute import Place, Unreachable
from det_provisioner_aws.prices import Ec2Market

from tests.support.fake_ec2 import Failure, Wire

REGION = "us-west-2"
TYPES = ("g5.12xlarge", "m5.large", "p4d.24xlarge", "x9.unheard-of")


@pytest.fixture(scope="module")
def market(moto_url: str) -> Ec2Market:
    return Ec2Market(moto_url)


def test_types_have_their_gpus_as_slots(market: Ec2Market) -> None:
    slots = market.slots(REGION, TYPES)
    assert slots == {"g5.12xlarge": 4, "m5.large": 0, "p4d.24xlarge": 8}


def test_zones_are_returned_by_type(market: Ec2Market) -> None:
    zones = market.zones(REGION, TYPES)
    assert list(zones) == ["g5.12xlarge", "m5.large", "p4d.24xlarge"]
    assert all(zone.startswith(REGION) for zone in zones["m5.large"])
    assert len(zones["m5.large"]) > 1


def test_every_zone_has_one_price(market: Ec2Market) -> None:
    prices = market.spot_prices(REGION, TYPES)
    assert {p.machine_type for p in prices} == set(TYPES[:3])
    assert len({(p.zone, p.machine_type) for p in prices}) == len(prices)
    assert all(p.price_usd_hour > 0 for p in prices)


def test_uses_the_newest_price(market: Ec2Market, monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire()
    wire.install(monkeypatch)
    items = "".join(
        f"<item><instanceType>g5.xlarge</instanceType><availabilityZone>us-west-2a</availabilityZone>"
        f"<spotPrice>{price}</spotPrice><timestamp>2026-11-{day}T00:00:00Z</timestamp></item>"
        for price, day in (("0.40", "20"), ("0.55", "22"), ("0.45", "21"))
    )
    wire.answers["DescribeSpotPriceHistory"] = (
        f"<DescribeSpotPriceHistoryResponse><spotPriceHistorySet>{items}</spotPriceHistorySet>"
        "</DescribeSpotPriceHistoryResponse>"
    ).encode()
    (price,) = market.spot_prices(REGION, ["g5.xlarge"])
    assert (price.zone, price.price_usd_hour) == ("us-west-2a", Decimal("0.55"))


def product(price: str, unit: str = "Hrs") -> str:
    dimension = {"unit": unit, "pricePerUnit": {"USD": price}}
    term = {"priceDimensions": {"SKU.TERM.RATE": dimension}}
    return json.dumps({"product": {}, "terms": {"OnDemand": {"SKU.TERM": term}}})


def test_reads_hourly_prices_from_the_price_list(
    market: Ec2Market, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = Wire()
    wire.install(monkeypatch)
    products = [product("5.6720000000"), product("0.0000000000"), product("9", "Quantity")]
    wire.answers["GetProducts"] = json.dumps({"PriceList": products}).encode()
    assert market.on_demand_prices(REGION, ["g5.12xlarge"]) == {"g5.12xlarge": Decimal("5.672")}
    request = json.loads(wire.sent("GetProducts")[0]["body"])
    filters = {f["Field"]: f["Value"] for f in request["Filters"]}
    assert (filters["regionCode"], filters["instanceType"]) == (REGION, "g5.12xlarge")
    assert filters["operatingSystem"] == "Linux"
    wire.answers["GetProducts"] = b'{"PriceList": []}'
    assert market.on_demand_prices(REGION, ["x9.unheard-of"]) == {}


def test_many_names_are_requested_in_parts(
    market: Ec2Market, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = Wire()
    wire.install(monkeypatch)
    names = [f"x9.size-{n}" for n in range(250)]
    assert market.slots(REGION, names) == {}
    assert len(wire.sent("DescribeInstanceTypes")) == 2
    assert market.slots(REGION, []) == {}


def test_denied_or_silent_ec2_is_unreachable(
    market: Ec2Market, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = Wire()
    wire.install(monkeypatch)
    wire.failing_actions["DescribeSpotPriceHistory"] = Failure("UnauthorizedOperation", "no", 403)
    with pytest.raises(Unreachable, match="UnauthorizedOperation"):
        market.spot_prices(REGION, TYPES)
    wire.connected = False
    with pytest.raises(Unreachable):
        market.slots(REGION, TYPES)


WANTED = [WantedType(name) for name in TYPES]


def test_reads_types_zones_and_prices_of_a_region(market: Ec2Market) -> None:
    answer = market.read(Place(REGION, {}), WANTED)
    spot = [p for p in answer.prices if p.scope.capacity == Capacity.SPOT.value]
    assert {p.scope.machine_type for p in spot} == set(TYPES[:3])
    assert all(p.scope.zone.startswith(REGION) and p.since is not None for p in spot)
    assert answer.types["g5.12xlarge"].slots == 4
    assert answer.types["g5.12xlarge"].zones
    assert answer.types["x9.unheard-of"].zones == ()


def test_missing_permission_is_a_problem_but_other_data_is_returned(
    market: Ec2Market, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = Wire()
    wire.install(monkeypatch)
    wire.failing_actions["DescribeInstanceTypeOfferings"] = Failure("UnauthorizedOperation", "no", 403)  # fmt: skip
    answer = market.read(Place(REGION, {}), WANTED)
    assert "UnauthorizedOperation" in answer.problem
    assert answer.types == {}, "where nothing is known of zones, none is ruled out"
    wire.connected = False
    with pytest.raises(Unreachable):
        market.read(Place(REGION, {}), WANTED)


def test_disabled_price_list_gives_no_prices(moto_url: str) -> None:
    inside = Ec2Market(moto_url, price_list=False)
    assert inside.on_demand_prices(REGION, TYPES) == {}
    assert inside.spot_prices(REGION, TYPES)
