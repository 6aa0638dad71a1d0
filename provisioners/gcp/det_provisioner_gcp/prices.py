"""Read from Google Compute Engine the machine types it offers now, their zones and their prices."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from det_controlplane.core.provision.offers import Capacity, Scope
from det_controlplane.core.provision.prices import TypeZones, WantedType
from det_controlplane.ports.compute import Place, Unreachable
from det_controlplane.ports.market import MarketAnswer, Price

from det_provisioner_gcp.api import FoundMachineType, GceApi, Refused
from det_provisioner_gcp.naming import region_of
from det_provisioner_gcp.settings import BadSettings, project_of
from det_provisioner_gcp.skus import Parts, PriceList, fetch_skus

_LOCAL_DISK_GIB = 375


class GceMarket:
    """Implements `ports.market.Market`. Types that a region does not have are left out.

    `project` holds for sections that name none.
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
        """Return types and prices, of machines together with their GPUs. Raises Unreachable."""
        try:
            project = project_of(place.settings, self._project)
        except BadSettings as e:
            raise Unreachable(str(e)) from e
        here = GceMarket(self._api, project, self._skus)
        types = here._types(place.region, sorted({w.machine_type for w in wanted}))
        found, zones = {t.name: t for t in types}, _zones_by_name((t.name, t.zone) for t in types)
        gpus = here._accelerator_zones(place.region, sorted({w.gpu for w in wanted if w.gpu}))
        try:
            listed = PriceList(self._skus(), place.region)
            problem = ""
        except Unreachable as e:
            listed, problem = PriceList((), place.region), str(e)
        return MarketAnswer(
            prices=tuple(_prices(place.region, wanted, found, listed)),
            types={w.name: _offered(w, found, zones, gpus) for w in wanted},
            problem=problem,
        )

    def _accelerator_zones(self, region: str, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return by GPU the zones where machines can have it attached. Raises Unreachable."""
        try:
            found = self._api.accelerator_types(self._project, names) if names else ()
        except Refused as e:
            raise Unreachable(f"Google Cloud does not tell its GPUs: {e}") from e
        return _zones_by_name((name, zone) for name, zone in found if region_of(zone) == region)

    def _types(self, region: str, names: Sequence[str]) -> list[FoundMachineType]:
        try:
            found = self._api.machine_types(self._project, names) if names else ()
        except Refused as e:
            raise Unreachable(f"Google Cloud does not tell its machine types: {e}") from e
        return [t for t in found if region_of(t.zone) == region]


def _prices(
    region: str,
    wanted: Iterable[WantedType],
    found: Mapping[str, FoundMachineType],
    listed: PriceList,
) -> Iterator[Price]:
    """Yield the prices of which the list tells every part."""
    for one in wanted:
        for capacity in Capacity if one.machine_type in found else ():
            usd = listed.machine(_parts(found[one.machine_type]), capacity)
            each = listed.accelerator(one.gpu, capacity) if one.gpus else Decimal(0)
            if usd is not None and each is not None:
                scope = Scope("gcp", region, "", one.name, capacity.value)
                yield Price(scope, usd + one.gpus * each)


def _offered(
    one: WantedType,
    found: Mapping[str, FoundMachineType],
    zones: Mapping[str, tuple[str, ...]],
    gpus: Mapping[str, tuple[str, ...]],
) -> TypeZones:
    here = zones.get(one.machine_type, ())
    if one.gpus:
        here = tuple(zone for zone in here if zone in gpus.get(one.gpu, ()))
    own = found[one.machine_type].accelerators if one.machine_type in found else 0
    return TypeZones(here, one.gpus or own)


def _zones_by_name(found: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    zones: dict[str, set[str]] = {}
    for name, zone in found:
        zones.setdefault(name, set()).add(zone)
    return {name: tuple(sorted(zones[name])) for name in sorted(zones)}


def _parts(found: FoundMachineType) -> Parts:
    return Parts(
        machine_type=found.name,
        vcpus=found.vcpus,
        memory_gib=Decimal(found.memory_mib) / 1024,
        local_disk_gib=found.local_disks * _LOCAL_DISK_GIB,
        accelerator=found.accelerator,
        accelerators=found.accelerators,
    )
