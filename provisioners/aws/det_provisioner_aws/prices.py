"""Read from EC2 the machine types it offers now, their zones and their prices."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any, TypeVar

from botocore.exceptions import BotoCoreError, ClientError
from det_controlplane.core.provision.offers import Capacity, Scope
from det_controlplane.core.provision.prices import TypeZones, WantedType
from det_controlplane.ports.compute import Place, Unreachable
from det_controlplane.ports.market import MarketAnswer, Price

from det_provisioner_aws.clients import Clients
from det_provisioner_aws.settings import PROVIDER

_FILTER_VALUES = 200  # that a filter may have
_LINUX = "Linux/UNIX"
_PRICE_LIST_REGION = "us-east-1"  # one of the few that answer for all
# The entry of a type, of many, that machines without licences and reservations cost.
_PLAIN_LINUX = {
    "operatingSystem": "Linux",
    "preInstalledSw": "NA",
    "tenancy": "Shared",
    "capacitystatus": "Used",
}


@dataclass(frozen=True, slots=True)
class SpotPrice:
    """Hold the price of a type as spot capacity in a zone since a time."""

    zone: str
    machine_type: str
    price_usd_hour: Decimal
    since: datetime


class Ec2Market:
    """Implements `ports.market.Market`. Types that a region does not have are left out."""

    provider = PROVIDER

    def __init__(self, endpoint_url: str | None = None, *, price_list: bool = True) -> None:
        self._clients = Clients(endpoint_url)
        self._price_list = price_list

    def read(self, place: Place, wanted: Sequence[WantedType]) -> MarketAnswer:
        """Return types and prices. What a missing permission hides is named as the problem. Raises Unreachable."""
        region, names = place.region, [w.machine_type for w in wanted]
        problems: list[str] = []
        spot = _unless_denied(problems, lambda: self.spot_prices(region, names)) or []
        listed = _unless_denied(problems, lambda: self.on_demand_prices(region, names)) or {}
        zones = _unless_denied(problems, lambda: self.zones(region, names))
        slots = _unless_denied(problems, lambda: self.slots(region, names)) or {}
        if len(problems) == _PARTS:
            raise Unreachable(problems[0])
        return MarketAnswer(
            prices=tuple(_prices(region, spot, listed)),
            types={}
            if zones is None
            else {name: TypeZones(zones.get(name, ()), slots.get(name, 0)) for name in names},
            problem="; ".join(dict.fromkeys(problems)),
        )

    def slots(self, region: str, names: Sequence[str]) -> dict[str, int]:
        """Return by type how many GPUs it has. Raises Unreachable."""
        found = self._described(region, "describe_instance_types", "InstanceTypes", names)
        return {told["InstanceType"]: _gpus(told) for told in found}

    def zones(self, region: str, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return by type the zones that have it. Raises Unreachable."""
        zones: dict[str, list[str]] = {}
        found = self._described(
            region,
            "describe_instance_type_offerings",
            "InstanceTypeOfferings",
            names,
            LocationType="availability-zone",
        )
        for offering in found:
            zones.setdefault(offering["InstanceType"], []).append(offering["Location"])
        return {name: tuple(sorted(zones[name])) for name in sorted(zones)}

    def spot_prices(self, region: str, names: Sequence[str]) -> list[SpotPrice]:
        """Return the current price of each type in each zone that has it. Raises Unreachable."""
        current: dict[tuple[str, str], SpotPrice] = {}
        found = self._described(
            region,
            "describe_spot_price_history",
            "SpotPriceHistory",
            names,
            ProductDescriptions=[_LINUX],
            StartTime=datetime.now(timezone.utc),  # prices that began before are told as well
        )
        for told in found:
            price = SpotPrice(
                told["AvailabilityZone"],
                told["InstanceType"],
                Decimal(told["SpotPrice"]),
                told["Timestamp"],
            )
            known = current.setdefault((price.zone, price.machine_type), price)
            if price.since > known.since:
                current[price.zone, price.machine_type] = price
        return [current[key] for key in sorted(current)]

    def on_demand_prices(self, region: str, names: Sequence[str]) -> dict[str, Decimal]:
        """Return by type what an hour costs by the price list, for the types that it has. Raises Unreachable.

        Nothing where it is not to be asked: the prices that come with the program hold then."""
        if not self._price_list:
            return {}
        paginator = self._clients.reading("pricing", _PRICE_LIST_REGION).get_paginator(
            "get_products"
        )
        prices: dict[str, Decimal] = {}
        with _reaching("the price list"):
            for name in names:
                wanted = {**_PLAIN_LINUX, "instanceType": name, "regionCode": region}
                filters = [
                    {"Type": "TERM_MATCH", "Field": f, "Value": v} for f, v in wanted.items()
                ]
                pages = paginator.paginate(ServiceCode="AmazonEC2", Filters=filters)
                listed = [_hourly(product) for page in pages for product in page["PriceList"]]
                price = max((p for p in listed if p), default=None)
                if price is not None:
                    prices[name] = price
        return prices

    def _described(
        self, region: str, operation: str, listed: str, names: Sequence[str], **parameters: Any
    ) -> Iterator[dict[str, Any]]:
        """Read all pages about some types. A filter passes over unknown names, a list of them fails."""
        paginator = self._clients.reading("ec2", region).get_paginator(operation)
        with _reaching(f"EC2 in {region}"):
            for start in range(0, len(names), _FILTER_VALUES):
                wanted = list(names[start : start + _FILTER_VALUES])
                only = [{"Name": "instance-type", "Values": wanted}]
                for page in paginator.paginate(Filters=only, **parameters):
                    yield from page[listed]


_PARTS = 4
Part = TypeVar("Part")


def _unless_denied(problems: list[str], read: Callable[[], Part]) -> Part | None:
    """Return a part of what there is to know; where it cannot be read, note why."""
    try:
        return read()
    except Unreachable as e:
        problems.append(str(e))
        return None


def _prices(
    region: str, spot: Iterable[SpotPrice], on_demand: Mapping[str, Decimal]
) -> Iterator[Price]:
    for told in spot:
        scope = Scope(PROVIDER, region, told.zone, told.machine_type, Capacity.SPOT.value)
        yield Price(scope, told.price_usd_hour, told.since)
    for name, usd_hour in on_demand.items():
        yield Price(Scope(PROVIDER, region, "", name, Capacity.ON_DEMAND.value), usd_hour)


@contextmanager
def _reaching(source: str) -> Iterator[None]:
    """Translate a denial like silence: prices are not known either way."""
    try:
        yield
    except (ClientError, BotoCoreError) as e:
        raise Unreachable(f"{source} does not tell types and prices: {e}") from e


def _hourly(product: str) -> Decimal | None:
    """Read the price of an hour from an entry of the price list, which is JSON within JSON."""
    terms = json.loads(product).get("terms", {}).get("OnDemand", {})
    prices = [
        Decimal(dimension["pricePerUnit"]["USD"])
        for term in terms.values()
        for dimension in term["priceDimensions"].values()
        if dimension["unit"] == "Hrs" and "USD" in dimension["pricePerUnit"]
    ]
    return max(prices, default=None)


def _gpus(told: dict[str, Any]) -> int:
    return sum(gpu.get("Count", 0) for gpu in told.get("GpuInfo", {}).get("Gpus", ()))
