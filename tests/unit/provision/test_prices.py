"""Reported prices and zones applied to the offers of a pool."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from det_controlplane.core.provision.decide import decide
from det_controlplane.core.provision.model import ProvisionCode, ProvisionSnapshot
from det_controlplane.core.provision.offers import Capacity, Offer, Scope
from det_controlplane.core.provision.prices import (
    MarketKnowledge,
    Quote,
    TypeZones,
    current,
    wanted_of,
)

from tests.support.provisioning import NOW, offer, plan, pool, spot, wants

ANY_ZONE = spot(1, "0.40", zone="", machine_type="g5.xlarge")
IN_A = replace(ANY_ZONE, zone="us-east-1a")


@dataclass(frozen=True)
class Section:
    settings: Mapping[str, Any]


PLAIN = (Section({}),)


def quoted(zone: str, usd: str, of: Offer = ANY_ZONE) -> tuple[Scope, Quote]:
    return Scope.of(of)._replace(zone=zone), Quote(Decimal(usd), NOW)


def price(
    asked: Offer, knowledge: MarketKnowledge, settings: Mapping[str, Any] | None = None
) -> Decimal:
    (found,) = current((asked,), (Section(settings or {}),), knowledge)
    return found.price_usd_hour


def test_offer_has_the_latest_price_of_its_cloud() -> None:
    knowledge = MarketKnowledge(
        prices=dict([quoted("us-east-1a", "0.31"), quoted("us-east-1b", "0.50")])
    )
    assert price(IN_A, knowledge) == Decimal("0.31")
    assert price(replace(IN_A, machine_type="g6.xlarge"), knowledge) == IN_A.price_usd_hour


def test_price_of_a_region_applies_to_each_zone() -> None:
    assert price(IN_A, MarketKnowledge(prices=dict([quoted("", "0.33")]))) == Decimal("0.33")


def test_offer_of_any_zone_has_the_highest_zone_price() -> None:
    prices = dict([quoted("us-east-1a", "0.31"), quoted("us-east-1b", "0.50")])
    types = {("aws", "us-east-1", "g5.xlarge"): TypeZones(("us-east-1a", "us-east-1b"))}
    assert price(ANY_ZONE, MarketKnowledge(prices, types)) == Decimal("0.50")


def test_operators_price_applies_only_to_on_demand_offers() -> None:
    own = {"instance_price": 0.9}
    on_demand = replace(IN_A, capacity=Capacity.ON_DEMAND, price_usd_hour=Decimal("0.9"))
    knowledge = MarketKnowledge(
        prices=dict([quoted("", "1.10", on_demand), quoted("", "0.33")]),
    )
    assert price(on_demand, knowledge, own) == Decimal("0.9")
    assert price(on_demand, knowledge) == Decimal("1.10")
    assert price(IN_A, knowledge, own) == Decimal("0.33")


def test_type_with_attached_gpus_has_its_own_price() -> None:
    n1 = offer(4, "2.00", provider="gcp", machine_type="n1-standard-8")
    attached = {"instance_type": {"gpu_type": "nvidia-tesla-t4", "gpu_num": 4}}
    name = wanted_of(n1, (Section(attached),)).name
    assert name == "n1-standard-8+4xnvidia-tesla-t4"
    bare, whole = Scope.of(n1), Scope.of(n1)._replace(machine_type=name)
    knowledge = MarketKnowledge(
        prices={bare: Quote(Decimal("0.38"), NOW), whole: Quote(Decimal("1.78"), NOW)}
    )
    assert price(n1, knowledge, attached) == Decimal("1.78")
    assert price(n1, knowledge) == Decimal("0.38")


def test_reason_names_a_zone_without_the_type() -> None:
    types = {("aws", "us-east-1", "g5.xlarge"): TypeZones(("us-east-1b",))}
    (matching_offer,) = current((IN_A,), PLAIN, MarketKnowledge(types=types))
    reason = plan(pool([matching_offer], wants(1))).waiting["d1"]
    assert reason.code is ProvisionCode.NO_OFFER_FITS
    assert "us-east-1a does not have this type" in reason.sentence


def test_operators_slots_override_slots_reported_by_the_cloud() -> None:
    types = {("aws", "us-east-1", "g5.xlarge"): TypeZones(("us-east-1a",), slots=2)}
    (reported_offer,) = current((IN_A,), PLAIN, MarketKnowledge(types=types))
    (own,) = current((IN_A,), (Section({"instance_slots": 1}),), MarketKnowledge(types=types))
    assert (reported_offer.slots, own.slots) == (2, 1)


def test_reason_of_price_cap_has_the_time_of_the_next_price() -> None:
    dear = replace(IN_A, max_price_usd_hour=Decimal("0.30"))
    due = {("aws", "us-east-1"): NOW + 600}
    result = decide(ProvisionSnapshot((pool([dear], wants(1)),), prices_due=due), NOW)
    reason = result.waiting["d1"]
    assert (reason.code, reason.next_try) == (ProvisionCode.PRICE_CAP, NOW + 600)
    assert "its price is read again at" in reason.sentence
    assert result.next_at == NOW + 600
