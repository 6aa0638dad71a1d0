"""The source of a pool's machines: its `provider`, or its list of `offers`. See docs/reference/pools.md."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from det_controlplane.core.config import aws_machines, other_cloud
from det_controlplane.core.config.reading import Reader
from det_controlplane.core.provision import catalog
from det_controlplane.core.provision.catalog import Priced, Unknown
from det_controlplane.core.provision.offers import Capacity, Offer

_MOST = 2**31 - 1
# What Determined rents where a section names no type.
_DEFAULT_TYPES = {"aws": "g4dn.metal", "gcp": "n1-standard-32"}
_DEFAULT_GPUS = ("nvidia-tesla-t4", 4)
# Passed on to the provisioner of the cloud as they are.
_COMMON_SETTINGS = (
    "master_url", "startup_script", "container_startup_script", "agent_config_file_contents", "agent_package",
    "pull_images",
)  # fmt: skip
# Of Determined, whose agent is a container; they do nothing here. See docs/reference/pools.md.
_NO_EFFECT = (
    "master_cert_name", "agent_docker_network", "agent_docker_runtime", "agent_docker_image",
    "agent_fluent_image", "agent_reconnect_attempts", "agent_reconnect_backoff",
)  # fmt: skip
_NO_EFFECT_IN = {
    "aws": ("log_group", "log_stream"),
    "gcp": ("name_prefix", "operation_timeout_period", "use_cloud_logging"),
}
_NO_EFFECT_OF_POOLS = ("launch_error_timeout", "launch_error_retries")
_SETTINGS = {
    "aws": (
        "root_volume_size", "root_volume_type", "root_volume_kms_key_id", "root_volume_throughput", "image_id",
        "tag_key", "tag_value", "instance_name", "ssh_key_name", "network_interface",
        "iam_instance_profile_arn", "custom_tags", "placement_group",
        "capacity_reservation_id", "efa_interfaces", "google_credentials",
    ),
    "gcp": (
        "project", "boot_disk_size", "boot_disk_type", "boot_disk_source_image", "label_key",
        "label_value", "network_interface", "network_tags", "service_account", "labels", "base_config",
        "shielded", "aws_role_arn",
    ),
}  # fmt: skip
_IMAGE = re.compile(r"[A-Za-z0-9][\w.:/@-]*")
_LEAST_DISK = {"aws": "root_volume_size", "gcp": "boot_disk_size"}


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a pool's configuration that rents from one provider, with one set of settings."""

    provider: str
    settings: Mapping[str, Any]  # the section as it is written
    regions: tuple[str, ...] = ()
    places: tuple[
        tuple[str, str], ...
    ] = ()  # regions, each with a zone or with an empty one for any
    types: tuple[Priced, ...] = ()
    capacities: tuple[Capacity, ...] = ()
    max_price: Decimal | None = None  # dollars an hour and machine
    spot_max_price: Decimal | None = None
    ignored: tuple[str, ...] = field(default=(), compare=False)  # keys that were given in vain

    def types_as(self, capacity: Capacity) -> Sequence[Priced]:
        """Return the types that the cloud rents with this capacity type."""
        is_spot = capacity is Capacity.SPOT
        return [
            p for p in self.types if is_spot or not catalog.is_spot_only(self.provider, p.type.name)
        ]

    def cap(self, capacity: Capacity) -> Decimal | None:
        """Return the highest price of a machine for an hour."""
        caps = [self.max_price, self.spot_max_price if capacity is Capacity.SPOT else None]
        return min((cap for cap in caps if cap is not None), default=None)


@dataclass(frozen=True, slots=True)
class Provider:
    """The machines of a pool: what it may rent, and how much of it. Durations are seconds."""

    type: str  # of the first section
    settings: Mapping[str, Any]  # the section `provider`; empty where the pool lists offers
    sections: tuple[Section, ...] = ()
    min_instances: int = 0
    max_instances: int = 5
    max_idle_agent_period: float = 1200.0
    max_agent_starting_period: float = 1200.0
    launch_error_timeout: float | None = None
    launch_error_retries: int = 0
    warm_instances: int = 0
    max_hourly_cost: Decimal | None = None
    ignored: tuple[str, ...] = field(default=(), compare=False)  # keys that were given in vain


def expand(provider: Provider) -> tuple[Offer, ...]:
    """Return every offer of a pool at the list's prices, in the operator's order."""
    return tuple(
        offer
        for number, section in enumerate(provider.sections)
        for offer in _offers(number, section)
    )


def _offers(number: int, section: Section) -> Iterator[Offer]:
    for capacity in section.capacities:
        for priced in section.types_as(capacity):
            for region, zone in section.places:
                yield Offer(
                    section.provider, region, zone, priced.type.name, capacity, priced.type.slots,
                    priced.price(region, capacity), number, section.cap(capacity),
                )  # fmt: skip


def read_provider(pool: Reader) -> Provider | None:
    """Read where the machines of a pool come from; None for a pool whose agents join by themselves."""
    listed = pool.gives("offers")
    items = pool.items("offers")
    single = pool.section("provider")
    if listed and pool.gives("provider"):
        pool.refuse(
            "offers", "and provider cannot both be given; make provider the first of the offers"
        )
    if not (listed or pool.gives("provider")):
        _refuse_without_machines(pool)
        return None
    if listed and not items:
        pool.refuse("offers", "must list at least one section: what the pool may rent")
    sizes = pool if listed else single
    sections = tuple(filter(None, map(_section, items if listed else [single])))
    first = items[0] if items else single
    given_in_vain = [key for section in sections for key in section.ignored]
    provider = Provider(
        type=sections[0].provider if sections else str(first.raw("type") or ""),
        settings={} if listed else pool.object("provider"),
        sections=sections,
        min_instances=sizes.whole("min_instances", 0, 0, _MOST),
        max_instances=sizes.whole("max_instances", 5, 0, _MOST),
        max_idle_agent_period=sizes.seconds("max_idle_agent_period", 1200.0) or 0.0,
        max_agent_starting_period=sizes.seconds("max_agent_starting_period", 1200.0) or 0.0,
        launch_error_timeout=sizes.seconds("launch_error_timeout", None),
        launch_error_retries=sizes.whole("launch_error_retries", 0, 0, _MOST),
        warm_instances=pool.whole("warm_instances", 0, 0, _MOST),
        max_hourly_cost=pool.dollars("max_hourly_cost"),
        ignored=(
            *given_in_vain,
            *sizes.ignore(*(key for key in _NO_EFFECT_OF_POOLS if sizes.raw(key))),
        ),
    )
    for section in items if listed else [single]:
        section.close()
    _check_sizes(sizes, provider)
    return provider


def _refuse_without_machines(pool: Reader) -> None:
    for key in ("warm_instances", "max_hourly_cost"):
        if pool.raw(key) is not None:
            pool.refuse(key, "needs a provider or offers: this pool rents no machines")


def _check_sizes(reader: Reader, provider: Provider) -> None:
    most = provider.max_instances
    if provider.min_instances > most:
        least = provider.min_instances
        reader.refuse("min_instances", f"({least}) is more than max_instances ({most})")


def _section(reader: Reader) -> Section | None:
    """Read one section; None, and problems, where nothing can be rented by it."""
    kind = reader.text("type", "")
    if kind not in catalog.PROVIDERS:
        given = f", not {kind!r}" if kind else ""
        reader.refuse("type", f"is required: the cloud of the machines, aws or gcp{given}")
        reader.ignore(*reader.content())  # which keys there are depends on it
        return None
    reader.ignore(*_COMMON_SETTINGS, *_SETTINGS[kind])
    reader.whole(_LEAST_DISK[kind], 200, 100, 65536)
    if kind == "aws":
        aws_machines.check(reader)
    other_cloud.check(reader, kind)
    names, gpus = _names(reader, kind)
    places, capacities = tuple(_places(reader, kind)), _capacities(reader)
    if Capacity.SPOT not in capacities:
        _refuse_spot_only(reader, kind, names)
    return Section(
        provider=kind,
        settings=_settings(reader, kind, names, gpus),
        regions=tuple(dict.fromkeys(region for region, _ in places)),
        places=places,
        types=tuple(_types(reader, kind, names, gpus)),
        capacities=capacities,
        max_price=reader.dollars("max_price"),
        spot_max_price=reader.dollars("spot_max_price"),
        ignored=tuple(reader.ignore(*_NO_EFFECT, *_NO_EFFECT_IN[kind])),
    )


def _refuse_spot_only(reader: Reader, kind: str, names: Iterable[str]) -> None:
    for name in names:
        if catalog.is_spot_only(kind, name):
            of_type = reader.name_of("instance_types", "instance_type")
            reader.refuse(of_type, f"{name} is rented as spot capacity only: give spot: true")


def _settings(
    reader: Reader, kind: str, names: Sequence[str], gpus: "_Gpus | None"
) -> Mapping[str, Any]:
    """Return the section for the provisioner of the cloud, with the GPUs that N1 types get by default."""
    settings = reader.content()
    if reader.gives("pull_images"):
        settings["pull_images"] = _images(reader)
    if kind == "gcp":
        given = settings.get("instance_type")
        attached = {"gpu_type": gpus[0], "gpu_num": gpus[1]} if gpus else {"gpu_num": 0}
        known = given if isinstance(given, Mapping) else {"machine_type": names[0]}
        settings["instance_type"] = {**known, **attached}
    return settings


def _images(reader: Reader) -> list[str]:
    images = reader.texts("pull_images")
    for image in images:
        if not _IMAGE.fullmatch(image):
            reader.refuse("pull_images", f"lists {image!r}, which is no name of an image")
    return list(images)


def _places(reader: Reader, kind: str) -> Iterator[tuple[str, str]]:
    regions = reader.texts("regions", "region")
    zones = reader.texts("zones", "zone")
    if not (regions or zones):
        reader.refuse("region", f"is required: where {kind} runs the machines; or give a zone")
    known = _known_regions(reader, kind, regions)
    by_region: dict[str, list[str]] = {region: [] for region in known}
    for zone in zones:
        try:
            region = catalog.region_of(kind, zone)
        except Unknown as error:
            reader.refuse(reader.name_of("zones", "zone"), str(error))
            continue
        if regions and region not in regions:
            message = f"{zone!r} is in {region}, which is not among the regions"
            reader.refuse(reader.name_of("zones", "zone"), message)
        by_region.setdefault(region, []).append(zone)
    for region, its_zones in by_region.items():
        yield from ((region, zone) for zone in its_zones or ("",))


def _known_regions(reader: Reader, kind: str, regions: Iterable[str]) -> Iterator[str]:
    for region in regions:
        try:
            catalog.check_region(kind, region)
            yield region
        except Unknown as error:
            reader.refuse(reader.name_of("regions", "region"), str(error))


_Gpus = tuple[str, int]


def _types(reader: Reader, kind: str, names: Iterable[str], gpus: _Gpus | None) -> Iterator[Priced]:
    """Yield the types with their slots, as `instance_slots` and `cpu_slots_allowed` have it."""
    slots = reader.whole("instance_slots", -1, 0, 1024)
    price = reader.dollars("instance_price")
    cpu_slots = 1 if reader.flag("cpu_slots_allowed", False) else 0
    for name in names:
        try:
            priced = catalog.machine_type(kind, name)
            if gpus is not None and name.startswith("n1-"):
                priced = catalog.with_gpus(priced, *gpus)
        except Unknown as error:
            if slots < 0:
                of_type = reader.name_of("instance_types", "instance_type")
                is_gpu = catalog.is_known(kind, name)
                reader.refuse("instance_type.gpu_type" if is_gpu else of_type, str(error))
                continue
            priced = catalog.of_the_operator(kind, name, slots)
        own = slots if slots >= 0 else priced.type.slots or cpu_slots
        yield catalog.adjusted(priced, own, price)


def _names(reader: Reader, kind: str) -> tuple[tuple[str, ...], _Gpus | None]:
    """Return the names of the types, and the GPUs that N1 types get."""
    many = reader.texts("instance_types")
    one = reader.raw("instance_type")
    if many and one is not None and not isinstance(one, Mapping):
        reader.refuse("instance_types", "and instance_type cannot both be given")
    if isinstance(one, Mapping):
        section = reader.section("instance_type")
        name = section.text("machine_type", _DEFAULT_TYPES[kind])
        gpus = section.text("gpu_type", _DEFAULT_GPUS[0]), section.whole("gpu_num", 4, 0, 16)
        section.flag("preemptible", False)
        section.close()
        return many or (name,), gpus if gpus[1] and kind == "gcp" else None
    default = (_DEFAULT_TYPES[kind],)
    given = many or ((reader.text("instance_type", ""),) if one is not None else default)
    return given, _DEFAULT_GPUS if kind == "gcp" and given == default else None


def _capacities(reader: Reader) -> tuple[Capacity, ...]:
    """Return the capacities that `capacity` lists; its older forms are `spot` of AWS and `preemptible` of GCP."""
    instance_type = reader.raw("instance_type")
    preemptible = isinstance(instance_type, Mapping) and bool(instance_type.get("preemptible"))
    spot = reader.flag("spot", False) or preemptible
    known = {capacity.value: capacity for capacity in Capacity}
    found = []
    for name in reader.texts("capacity"):
        if name in known:
            found.append(known[name])
        else:
            reader.refuse("capacity", f"lists {name!r}; it may list {' and '.join(known)}")
    return tuple(found) or (Capacity.SPOT if spot else Capacity.ON_DEMAND,)
