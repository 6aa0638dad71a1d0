"""Read the current machine types of EC2, with their zones and prices."""

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
from det_controlplane.ports.compute import MarketAnswer, Place, Price, Unreachable

from det_provisioner_aws.clients import Clients
from det_provisioner_aws.settings import PROVIDER

_FILTER_VALUES = 200  # the maximum number of values in a filter
_LINUX = "Linux/UNIX"
_PRICE_LIST_REGION = "us-east-1"  # one of the few regions that serve the price list
# The entry of a type for machines without licences and reservations. A type has many entries.
_PLAIN_LINUX = {
    "operatingSystem": "Linux",
    "preInstalledSw": "NA",
    "tenancy": "Shared",
    "capacitystatus": "Used",
}


@dataclass(frozen=True, slots=True)
class SpotPrice:
    """The price of a type's spot capacity in a zone, and the time since which it applies."""

    zone: str
    machine_type: str
    price_usd_hour: Decimal
    since: datetime


class Ec2Market:
    """Implements `ports.market.Market`. Types that a region does not have are omitted."""

    provider = PROVIDER

    def __init__(self, endpoint_url: str | None = None, *, price_list: bool = True) -> None:
        self._clients = Clients(endpoint_url)
        self._price_list = price_list

    def read(self, place: Place, wanted: Sequence[WantedType]) -> MarketAnswer:
        """Return types and prices. Parts with missing permissions are named in `problem`. Raises Unreachable."""
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
        """Return the number of GPUs by type. Raises Unreachable."""
        items = self._described(region, "describe_instance_types", "InstanceTypes", names)
        return {item["InstanceType"]: _gpus(item) for item in items}

    def zones(self, region: str, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return the zones that have each type. Raises Unreachable."""
        zones: dict[str, list[str]] = {}
        offerings = self._described(
            region,
            "describe_instance_type_offerings",
            "InstanceTypeOfferings",
            names,
            LocationType="availability-zone",
        )
        for offering in offerings:
            zones.setdefault(offering["InstanceType"], []).append(offering["Location"])
        return {name: tuple(sorted(zones[name])) for name in sorted(zones)}

    def spot_prices(self, region: str, names: Sequence[str]) -> list[SpotPrice]:
        """Return the current price of each type in each of its zones. Raises Unreachable."""
        current: dict[tuple[str, str], SpotPrice] = {}
        items = self._described(
            region,
            "describe_spot_price_history",
            "SpotPriceHistory",
            names,
            ProductDescriptions=[_LINUX],
            StartTime=datetime.now(timezone.utc),  # the response includes the prices that apply now
        )
        for item in items:
            price = SpotPrice(
                item["AvailabilityZone"],
                item["InstanceType"],
                Decimal(item["SpotPrice"]),
                item["Timestamp"],
            )
            latest = current.setdefault((price.zone, price.machine_type), price)
            if price.since > latest.since:
                current[price.zone, price.machine_type] = price
        return [current[key] for key in sorted(current)]

    def on_demand_prices(self, region: str, names: Sequence[str]) -> dict[str, Decimal]:
        """Return the hourly price by type, for types in the price list. Raises Unreachable.

        Return {} if the price list is disabled. The built-in prices are used then."""
        if not self._price_list:
            return {}
        paginator = self._clients.reading("pricing", _PRICE_LIST_REGION).get_paginator(
            "get_products"
        )
        prices: dict[str, Decimal] = {}
        with _translated_errors("the price list"):
            for name in names:
                terms = {**_PLAIN_LINUX, "instanceType": name, "regionCode": region}
                filters = [{"Type": "TERM_MATCH", "Field": f, "Value": v} for f, v in terms.items()]
                pages = paginator.paginate(ServiceCode="AmazonEC2", Filters=filters)
                listed = [_hourly(product) for page in pages for product in page["PriceList"]]
                price = max((p for p in listed if p), default=None)
                if price is not None:
                    prices[name] = price
        return prices

    def _described(
        self, region: str, operation: str, listed: str, names: Sequence[str], **parameters: Any
    ) -> Iterator[dict[str, Any]]:
        """Yield all entries about some types. A filter ignores unknown names, while a list of names would fail."""
        paginator = self._clients.reading("ec2", region).get_paginator(operation)
        with _translated_errors(f"EC2 in {region}"):
            for start in range(0, len(names), _FILTER_VALUES):
                names_of_request = list(names[start : start + _FILTER_VALUES])
                filters = [{"Name": "instance-type", "Values": names_of_request}]
                for page in paginator.paginate(Filters=filters, **parameters):
                    yield from page[listed]


_PARTS = 4
Part = TypeVar("Part")


def _unless_denied(problems: list[str], read: Callable[[], Part]) -> Part | None:
    """Return a part of the market's data. If it cannot be read, add the reason to `problems` and return None."""
    try:
        return read()
    except Unreachable as e:
        problems.append(str(e))
        return None


def _prices(
    region: str, spot: Iterable[SpotPrice], on_demand: Mapping[str, Decimal]
) -> Iterator[Price]:
    for spot_price in spot:
        scope = Scope(
            PROVIDER, region, spot_price.zone, spot_price.machine_type, Capacity.SPOT.value
        )
        yield Price(scope, spot_price.price_usd_hour, spot_price.since)
    for name, usd_hour in on_demand.items():
        yield Price(Scope(PROVIDER, region, "", name, Capacity.ON_DEMAND.value), usd_hour)


@contextmanager
def _translated_errors(source: str) -> Iterator[None]:
    """Translate denied requests like failed requests, because the prices are unknown in both cases."""
    try:
        yield
    except (ClientError, BotoCoreError) as e:
        raise Unreachable(f"{source} did not return types and prices: {e}") from e


def _hourly(product: str) -> Decimal | None:
    """Read the hourly price from an entry of the price list, which is JSON inside JSON."""
    terms = json.loads(product).get("terms", {}).get("OnDemand", {})
    prices = [
        Decimal(dimension["pricePerUnit"]["USD"])
        for term in terms.values()
        for dimension in term["priceDimensions"].values()
        if dimension["unit"] == "Hrs" and "USD" in dimension["pricePerUnit"]
    ]
    return max(prices, default=None)


def _gpus(item: dict[str, Any]) -> int:
    return sum(gpu.get("Count", 0) for gpu in item.get("GpuInfo", {}).get("Gpus", ()))
