"""Read the current machine types of Google Compute Engine, with their zones and prices."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from det_controlplane.core.provision.offers import Capacity, Scope
from det_controlplane.core.provision.prices import TypeZones, WantedType
from det_controlplane.ports.compute import MarketAnswer, Place, Price, Unreachable

from det_provisioner_gcp.api import FoundMachineType, GceApi, Refused
from det_provisioner_gcp.naming import region_of
from det_provisioner_gcp.settings import BadSettings, project_of
from det_provisioner_gcp.skus import Parts, PriceList, fetch_skus

_LOCAL_DISK_GIB = 375


class GceMarket:
    """Implements `ports.market.Market`. Types that a region does not have are omitted.

    `project` is the default for sections without a project.
    """

    provider = "gcp"

    def __init__(
        self,
        api: GceApi,
        project: str,
        skus: Callable[[], Iterable[Mapping[str, Any]]] = fetch_skus,
    ) -> None:
        self._api = api
        self._project = project
        self._skus = skus

    def read(self, place: Place, wanted: Sequence[WantedType]) -> MarketAnswer:
        """Return types and prices, which include the machines' GPUs. Raises Unreachable."""
        try:
            project = project_of(place.settings, self._project)
        except BadSettings as e:
            raise Unreachable(str(e)) from e
        market = GceMarket(self._api, project, self._skus)
        types = market._types(place.region, sorted({w.machine_type for w in wanted}))
        types_by_name, zones = (
            {t.name: t for t in types},
            _zones_by_name((t.name, t.zone) for t in types),
        )
        gpus = market._accelerator_zones(place.region, sorted({w.gpu for w in wanted if w.gpu}))
        try:
            listed = PriceList(self._skus(), place.region)
            problem = ""
        except Unreachable as e:
            listed, problem = PriceList((), place.region), str(e)
        return MarketAnswer(
            prices=tuple(_prices(place.region, wanted, types_by_name, listed)),
            types={w.name: _find_zones(w, types_by_name, zones, gpus) for w in wanted},
            problem=problem,
        )

    def _accelerator_zones(self, region: str, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return the zones in which machines can attach each GPU. Raises Unreachable."""
        try:
            accelerators = self._api.accelerator_types(self._project, names) if names else ()
        except Refused as e:
            raise Unreachable(f"Google Cloud did not list its GPUs: {e}") from e
        return _zones_by_name(
            (name, zone) for name, zone in accelerators if region_of(zone) == region
        )

    def _types(self, region: str, names: Sequence[str]) -> list[FoundMachineType]:
        try:
            types = self._api.machine_types(self._project, names) if names else ()
        except Refused as e:
            raise Unreachable(f"Google Cloud did not list its machine types: {e}") from e
        return [t for t in types if region_of(t.zone) == region]


def _prices(
    region: str,
    wanted: Iterable[WantedType],
    types: Mapping[str, FoundMachineType],
    listed: PriceList,
) -> Iterator[Price]:
    """Yield the prices of machines with all parts in the price list."""
    for wanted_type in wanted:
        for capacity in Capacity if wanted_type.machine_type in types else ():
            usd = listed.machine(_parts(types[wanted_type.machine_type]), capacity)
            gpu_usd = (
                listed.accelerator(wanted_type.gpu, capacity) if wanted_type.gpus else Decimal(0)
            )
            if usd is not None and gpu_usd is not None:
                scope = Scope("gcp", region, "", wanted_type.name, capacity.value)
                yield Price(scope, usd + wanted_type.gpus * gpu_usd)


def _find_zones(
    wanted_type: WantedType,
    types: Mapping[str, FoundMachineType],
    zones: Mapping[str, tuple[str, ...]],
    gpus: Mapping[str, tuple[str, ...]],
) -> TypeZones:
    type_zones = zones.get(wanted_type.machine_type, ())
    if wanted_type.gpus:
        type_zones = tuple(zone for zone in type_zones if zone in gpus.get(wanted_type.gpu, ()))
    built_in = (
        types[wanted_type.machine_type].accelerators if wanted_type.machine_type in types else 0
    )
    return TypeZones(type_zones, wanted_type.gpus or built_in)


def _zones_by_name(pairs: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    zones: dict[str, set[str]] = {}
    for name, zone in pairs:
        zones.setdefault(name, set()).add(zone)
    return {name: tuple(sorted(zones[name])) for name in sorted(zones)}


def _parts(machine_type: FoundMachineType) -> Parts:
    return Parts(
        machine_type=machine_type.name,
        vcpus=machine_type.vcpus,
        memory_gib=Decimal(machine_type.memory_mib) / 1024,
        local_disk_gib=machine_type.local_disks * _LOCAL_DISK_GIB,
        accelerator=machine_type.accelerator,
        accelerators=machine_type.accelerators,
    )
