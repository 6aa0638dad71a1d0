"""Google's public price list. A machine's price is the sum of its SKUs for cores, memory, GPUs and disks."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

from det_controlplane.core.provision.offers import Capacity
from det_controlplane.ports.compute import Unreachable

ENDPOINT = "https://cloudbilling.googleapis.com"
COMPUTE_ENGINE = "6F81-5844-456A"
CORE, MEMORY, LOCAL_DISK = "core", "memory", "local disk"
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_TIMEOUT_S = 30.0
_PAGE = 5000
_HOURS_PER_MONTH = 730
_NANO = Decimal(10) ** -9

_PART = re.compile(
    r"(?P<spot>Spot Preemptible )?(?P<series>[A-Z]\w+) (?:Predefined |AMD |Arm )?"
    r"Instance (?P<part>Core|Ram) running in .+"
)
_GPU = re.compile(
    r"(?P<gpu>.+?) GPU (?P<spot>attached to Spot Preemptible VMs )?running in .+"
)  # fmt: skip
_LOCAL_DISK = re.compile(
    r"SSD backed Local Storage(?P<spot> attached to Spot Preemptible VMs)?(?: (?:running )?in .+)?"
)
# Machine types with a separate series for their cores in the price list.
_SERIES = {"a3-megagpu": "a3plus", "a3-ultragpu": "a3ultra"}
GPU_NAMES = {
    "nvidia-tesla-p4": ("Nvidia Tesla P4",),
    "nvidia-tesla-p100": ("Nvidia Tesla P100",),
    "nvidia-tesla-v100": ("Nvidia Tesla V100",),
    "nvidia-tesla-t4": ("Nvidia Tesla T4",),
    "nvidia-l4": ("Nvidia L4",),
    "nvidia-tesla-a100": ("Nvidia Tesla A100",),
    "nvidia-a100-80gb": ("Nvidia Tesla A100 80GB", "Nvidia A100 80GB"),
    "nvidia-h100-80gb": ("Nvidia H100 80GB",),
    "nvidia-h100-mega-80gb": ("Nvidia H100 80GB Mega", "Nvidia H100 80GB Plus"),
    "nvidia-h200-141gb": ("H200 141GB", "Nvidia H200 141GB"),
}


class Item(NamedTuple):
    """The subject of a price: a part of a machine series, or a GPU with its name in the list."""

    what: str
    capacity: Capacity
    series: str = ""


@dataclass(frozen=True, slots=True)
class Parts:
    """The billed parts of a machine."""

    machine_type: str
    vcpus: int
    memory_gib: Decimal
    local_disk_gib: int
    accelerator: str  # empty without built-in GPUs
    accelerators: int


class PriceList:
    """The prices of one region, in US dollars an hour."""

    def __init__(self, skus: Iterable[Mapping[str, Any]], region: str) -> None:
        self._prices: dict[Item, Decimal] = {}
        for sku in skus:
            item = _item(str(sku.get("description", "")))
            if item and region in sku.get("serviceRegions", ()) and _is_plain(sku):
                self._prices.setdefault(item, _usd_hour(sku))

    def machine(self, parts: Parts, capacity: Capacity) -> Decimal | None:
        """Return a machine's price, or None if the list lacks one of its parts."""
        series = series_of(parts.machine_type)
        amounts: list[tuple[Decimal | int, Decimal | None]] = [
            (parts.vcpus, self._prices.get(Item(CORE, capacity, series))),
            (parts.memory_gib, self._prices.get(Item(MEMORY, capacity, series))),
        ]
        if parts.accelerator:
            amounts.append((parts.accelerators, self.accelerator(parts.accelerator, capacity)))
        if parts.local_disk_gib:
            amounts.append((parts.local_disk_gib, self._prices.get(Item(LOCAL_DISK, capacity))))
        total = Decimal(0)
        for amount, price in amounts:
            if price is None:
                return None
            total += amount * price
        return total

    def accelerator(self, name: str, capacity: Capacity) -> Decimal | None:
        """Return the price of one GPU."""
        listed = (self._prices.get(Item(n, capacity)) for n in GPU_NAMES.get(name, ()))
        return next((price for price in listed if price is not None), None)


def series_of(machine_type: str) -> str:
    """Return the series of a machine type in the price list."""
    series, _, rest = machine_type.partition("-")
    return _SERIES.get(f"{series}-{rest.partition('-')[0]}", series)


def fetch_skus(endpoint: str = ENDPOINT, credentials: Any = None) -> Iterator[Mapping[str, Any]]:
    """Yield the SKUs of Compute Engine's price list. Raises Unreachable."""
    import google.auth
    import requests
    from google.auth.exceptions import GoogleAuthError
    from google.auth.transport.requests import AuthorizedSession

    try:
        if credentials is None:
            credentials, _ = google.auth.default(scopes=[_SCOPE])
        url = f"{endpoint}/v1/services/{COMPUTE_ENGINE}/skus"
        params: dict[str, Any] = {"currencyCode": "USD", "pageSize": _PAGE}
        with AuthorizedSession(credentials) as session:
            while True:
                answer = session.get(url, params=params, timeout=_TIMEOUT_S)
                answer.raise_for_status()
                page = answer.json()
                yield from page.get("skus", ())
                if not page.get("nextPageToken"):
                    return
                params["pageToken"] = page["nextPageToken"]
    except (requests.RequestException, GoogleAuthError) as e:
        raise Unreachable(f"Google Cloud did not return its prices: {e}") from e


def _item(description: str) -> Item | None:
    if match := _PART.fullmatch(description):
        part = CORE if match["part"] == "Core" else MEMORY
        return Item(part, _capacity(match), match["series"].lower())
    if match := _LOCAL_DISK.fullmatch(description):
        return Item(LOCAL_DISK, _capacity(match))
    if match := _GPU.fullmatch(description):
        return Item(match["gpu"], _capacity(match))
    return None


def _capacity(match: re.Match[str]) -> Capacity:
    return Capacity.SPOT if match["spot"] else Capacity.ON_DEMAND


def _is_plain(sku: Mapping[str, Any]) -> bool:
    """Return whether a SKU is a standard price without a commitment."""
    return sku.get("category", {}).get("usageType") in ("OnDemand", "Preemptible")


def _usd_hour(sku: Mapping[str, Any]) -> Decimal:
    expression = sku["pricingInfo"][-1]["pricingExpression"]
    price = expression["tieredRates"][-1]["unitPrice"]
    usd = Decimal(price.get("units") or 0) + Decimal(price.get("nanos") or 0) * _NANO
    return usd / _HOURS_PER_MONTH if expression["usageUnit"].endswith(".mo") else usd
