"""The machines of a pool: its `provider` section or its list of `offers`. See docs/reference/pools.md."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from det_controlplane.core.config import machine_settings
from det_controlplane.core.config.reading import Reader
from det_controlplane.core.problems import shown
from det_controlplane.core.provision import catalog
from det_controlplane.core.provision.catalog import Priced, Unknown
from det_controlplane.core.provision.offers import Capacity, Offer
from det_controlplane.core.provision.warm import WarmPolicy

_MOST = 2**31 - 1
# The types that Determined rents for a section without a type.
_DEFAULT_TYPES = {"aws": "g4dn.metal", "gcp": "n1-standard-32"}
_DEFAULT_GPUS = ("nvidia-tesla-t4", 4)
# These settings are passed to the provisioner of the cloud without changes.
_COMMON_SETTINGS = (
    "master_url", "startup_script", "container_startup_script", "agent_config_file_contents", "agent_package",
    "pull_images",
)  # fmt: skip
# Determined's settings for its agent container. They have no effect here. See docs/reference/pools.md.
_NO_EFFECT = (
    "master_cert_name", "agent_docker_network", "agent_docker_runtime", "agent_docker_image",
    "agent_fluent_image", "agent_reconnect_attempts", "agent_reconnect_backoff",
)  # fmt: skip
_NO_EFFECT_IN = {
    "aws": ("log_group", "log_stream"),
    "gcp": ("name_prefix", "operation_timeout_period", "use_cloud_logging"),
}
_SIZES = ("min_instances", "max_instances", "max_idle_agent_period", "max_agent_starting_period")
_WARM_KEYS = ("max_warm_cost_per_day", "waiting_cost_per_hour")
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
        "shielded", "aws_role_arn", "placement_policy",
    ),
}  # fmt: skip
_IMAGE = re.compile(r"[A-Za-z0-9][\w.:/@-]*")
_LEAST_DISK = {"aws": "root_volume_size", "gcp": "boot_disk_size"}


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a pool's configuration. It rents from one provider with one set of settings."""

    provider: str
    settings: Mapping[str, Any]  # the section as written
    regions: tuple[str, ...] = ()
    places: tuple[tuple[str, str], ...] = ()  # regions with zones; an empty zone means any zone
    types: tuple[Priced, ...] = ()
    capacities: tuple[Capacity, ...] = ()
    max_price: Decimal | None = None  # dollars per hour and machine
    spot_max_price: Decimal | None = None
    ignored: tuple[str, ...] = field(default=(), compare=False)  # keys without effect

    def types_as(self, capacity: Capacity) -> Sequence[Priced]:
        """Return the types that the cloud rents with this capacity type."""
        is_spot = capacity is Capacity.SPOT
        return [
            p for p in self.types if is_spot or not catalog.is_spot_only(self.provider, p.type.name)
        ]

    def cap(self, capacity: Capacity) -> Decimal | None:
        """Return the highest hourly price of a machine, or None."""
        caps = [self.max_price, self.spot_max_price if capacity is Capacity.SPOT else None]
        return min((cap for cap in caps if cap is not None), default=None)


@dataclass(frozen=True, slots=True)
class Provider:
    """The machines of a pool: the offers and the limits. Durations are seconds."""

    type: str  # of the first section
    settings: Mapping[str, Any]  # the section `provider`; empty if the pool lists offers
    sections: tuple[Section, ...] = ()
    min_instances: int = 0
    max_instances: int = 5
    max_idle_agent_period: float = 1200.0
    max_agent_starting_period: float = 1200.0
    launch_error_timeout: float | None = None
    launch_error_retries: int = 0
    warm_instances: int = 0
    warm_policy: WarmPolicy | None = None  # for `warm_instances: auto`
    max_hourly_cost: Decimal | None = None
    ignored: tuple[str, ...] = field(default=(), compare=False)  # keys without effect


def expand(provider: Provider) -> tuple[Offer, ...]:
    """Return all offers of a pool at list prices, in the operator's order."""
    return tuple(
        offer
        for number, section in enumerate(provider.sections)
        for offer in _offers(number, section)
    )


def _offers(number: int, section: Section) -> Iterator[Offer]:
    for capacity in section.capacities:
        for machine in section.types_as(capacity):
            for region, zone in section.places:
                yield Offer(
                    section.provider, region, zone, machine.type.name, capacity, machine.type.slots,
                    machine.price(region, capacity), number, section.cap(capacity),
                )  # fmt: skip


def read_provider(pool: Reader) -> Provider | None:
    """Read the machines of a pool. Return None for a pool with agents that are not rented."""
    has_offers = pool.gives("offers")
    items = pool.items("offers")
    single = pool.section("provider")
    if has_offers and pool.gives("provider"):
        pool.refuse(
            "offers", "and provider cannot both be given; make provider the first of the offers"
        )
    if not (has_offers or pool.gives("provider")):
        _refuse_without_machines(pool)
        return None
    if has_offers and not items:
        pool.refuse("offers", "must list at least one section: what the pool may rent")
    sizes = pool if has_offers else single
    sections = tuple(filter(None, map(_section, items if has_offers else [single])))
    first = items[0] if items else single
    without_effect = [key for section in sections for key in section.ignored]
    warm_policy = _warm_policy(pool)
    provider = Provider(
        type=sections[0].provider if sections else str(first.raw("type") or ""),
        settings={} if has_offers else pool.object("provider"),
        sections=sections,
        min_instances=sizes.whole("min_instances", 0, 0, _MOST),
        max_instances=sizes.whole("max_instances", 5, 0, _MOST),
        max_idle_agent_period=sizes.seconds("max_idle_agent_period", 1200.0) or 0.0,
        max_agent_starting_period=sizes.seconds("max_agent_starting_period", 1200.0) or 0.0,
        launch_error_timeout=sizes.seconds("launch_error_timeout", None),
        launch_error_retries=sizes.whole("launch_error_retries", 0, 0, _MOST),
        warm_instances=_warm_instances(pool),
        warm_policy=warm_policy,
        max_hourly_cost=pool.dollars("max_hourly_cost"),
        ignored=(
            *without_effect,
            *sizes.ignore(*(key for key in _NO_EFFECT_OF_POOLS if sizes.raw(key))),
        ),
    )
    for section in items if has_offers else [single]:
        section.close()
    _check_sizes(sizes, provider)
    return provider


def _warm_instances(pool: Reader) -> int:
    """Read the fixed number of warm machines. Return 0 for `auto`."""
    value = pool.raw("warm_instances")
    if isinstance(value, str):
        if value != "auto":
            pool.refuse("warm_instances", f"must be a whole number or auto, not {shown(value)}")
        return 0
    return pool.whole("warm_instances", 0, 0, _MOST)


def _warm_policy(pool: Reader) -> WarmPolicy | None:
    """Read how the pool chooses its warm machines. Return None for a fixed number."""
    if pool.raw("warm_instances") != "auto":
        for key in _WARM_KEYS:
            if pool.raw(key) is not None:
                pool.refuse(key, "needs warm_instances: auto")
        return None
    most = pool.dollars("max_warm_cost_per_day")
    if most is None:
        if pool.raw("max_warm_cost_per_day") is None:
            pool.refuse("max_warm_cost_per_day", "is required with warm_instances: auto")
        return None
    if not most:
        pool.refuse(
            "max_warm_cost_per_day", "is 0, so no machine is kept; remove warm_instances instead"
        )
    waiting = pool.dollars("waiting_cost_per_hour")
    policy = WarmPolicy(float(most))
    return policy if waiting is None else replace(policy, waiting_usd_hour=float(waiting))


def _refuse_without_machines(pool: Reader) -> None:
    for key in ("warm_instances", "max_hourly_cost", *_SIZES, *_WARM_KEYS):
        if pool.raw(key) is not None:
            pool.refuse(key, "needs a provider or offers: this pool rents no machines")


def _check_sizes(sizes: Reader, provider: Provider) -> None:
    most = provider.max_instances
    if provider.min_instances > most:
        least = provider.min_instances
        sizes.refuse("min_instances", f"({least}) is more than max_instances ({most})")


def _section(reader: Reader) -> Section | None:
    """Read a section. Return None, and report problems, if the section cannot rent machines."""
    kind = reader.text("type", "")
    if kind not in catalog.providers():
        suffix = f", not {kind!r}" if kind else ""
        known = " or ".join(catalog.providers())
        reader.refuse("type", f"is required: the cloud of the machines, {known}{suffix}")
        reader.ignore(*reader.content())  # the allowed keys depend on the type
        return None
    reader.ignore(*_COMMON_SETTINGS, *_SETTINGS.get(kind, ()))
    if kind in _LEAST_DISK:
        reader.whole(_LEAST_DISK[kind], 200, 100, 65536)
        machine_settings.check_other_cloud(reader, kind)
    if kind == "aws":
        machine_settings.check_ec2_limits(reader)
    _check_own_settings(reader, kind)
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
        ignored=tuple(reader.ignore(*_NO_EFFECT, *_NO_EFFECT_IN.get(kind, ()))),
    )


def _check_own_settings(reader: Reader, kind: str) -> None:
    """Check the keys that only this provider has, by the model of its package."""
    model = catalog.catalog_of(kind).settings
    if model is None:
        return
    from pydantic import ValidationError  # not loaded where only AWS and Google Cloud are used

    names = {info.alias or name for name, info in model.model_fields.items()}
    reader.ignore(*names)
    try:
        model.model_validate({n: v for n, v in reader.content().items() if n in names})
    except ValidationError as e:
        for problem in e.errors():
            key = ".".join(map(str, problem["loc"]))
            reader.refuse(key, f"{problem['msg'][:1].lower()}{problem['msg'][1:]}")


def _refuse_spot_only(reader: Reader, kind: str, names: Iterable[str]) -> None:
    for name in names:
        if catalog.is_spot_only(kind, name):
            of_type = reader.name_of("instance_types", "instance_type")
            reader.refuse(of_type, f"{name} is rented as spot capacity only: give spot: true")


def _settings(
    reader: Reader, kind: str, names: Sequence[str], gpus: "_Gpus | None"
) -> Mapping[str, Any]:
    """Return the section for the provisioner, with the default GPUs of N1 types."""
    settings = reader.content()
    if reader.gives("pull_images"):
        settings["pull_images"] = _images(reader)
    if kind == "gcp":
        instance_type = settings.get("instance_type")
        attached = {"gpu_type": gpus[0], "gpu_num": gpus[1]} if gpus else {"gpu_num": 0}
        machine = (
            instance_type if isinstance(instance_type, Mapping) else {"machine_type": names[0]}
        )
        settings["instance_type"] = {**machine, **attached}
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
    valid_regions = _valid_regions(reader, kind, regions)
    by_region: dict[str, list[str]] = {region: [] for region in valid_regions}
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


def _valid_regions(reader: Reader, kind: str, regions: Iterable[str]) -> Iterator[str]:
    for region in regions:
        try:
            catalog.check_region(kind, region)
            yield region
        except Unknown as error:
            reader.refuse(reader.name_of("regions", "region"), str(error))


_Gpus = tuple[str, int]


def _types(reader: Reader, kind: str, names: Iterable[str], gpus: _Gpus | None) -> Iterator[Priced]:
    """Yield the types with the slots from `instance_slots` and `cpu_slots_allowed`."""
    slots = reader.whole("instance_slots", -1, 0, 1024)
    price = reader.dollars("instance_price")
    cpu_slots = 1 if reader.flag("cpu_slots_allowed", False) else 0
    for name in names:
        try:
            machine = catalog.machine_type(kind, name)
            if gpus is not None and name.startswith("n1-"):
                machine = catalog.with_gpus(machine, *gpus)
        except Unknown as error:
            if slots < 0:
                of_type = reader.name_of("instance_types", "instance_type")
                is_gpu = catalog.is_known(kind, name)
                reader.refuse("instance_type.gpu_type" if is_gpu else of_type, str(error))
                continue
            machine = catalog.of_the_operator(kind, name, slots)
        own = slots if slots >= 0 else machine.type.slots or cpu_slots
        yield catalog.adjusted(machine, own, price)


def _names(reader: Reader, kind: str) -> tuple[tuple[str, ...], _Gpus | None]:
    """Return the names of the types, and the GPUs of N1 types."""
    many = reader.texts("instance_types")
    one = reader.raw("instance_type")
    if many and one is not None and not isinstance(one, Mapping):
        reader.refuse("instance_types", "and instance_type cannot both be given")
    if isinstance(one, Mapping):
        section = reader.section("instance_type")
        name = section.text("machine_type", _DEFAULT_TYPES.get(kind, ""))
        gpus = section.text("gpu_type", _DEFAULT_GPUS[0]), section.whole("gpu_num", 4, 0, 16)
        section.flag("preemptible", False)
        section.close()
        return many or (name,), gpus if gpus[1] and kind == "gcp" else None
    default = (_DEFAULT_TYPES[kind],) if kind in _DEFAULT_TYPES else ()
    names = many or ((reader.text("instance_type", ""),) if one is not None else default)
    if not names:
        known = ", ".join(catalog.catalog_of(kind).types())
        reader.refuse("instance_type", f"is required: a machine type of {kind}, such as {known}")
    return names, _DEFAULT_GPUS if kind == "gcp" and names == default else None


def _capacities(reader: Reader) -> tuple[Capacity, ...]:
    """Return the capacities in `capacity`. Its older forms are `spot` for AWS and `preemptible` for Google Cloud."""
    instance_type = reader.raw("instance_type")
    preemptible = isinstance(instance_type, Mapping) and bool(instance_type.get("preemptible"))
    spot = reader.flag("spot", False) or preemptible
    by_name = {capacity.value: capacity for capacity in Capacity}
    capacities = []
    for name in reader.texts("capacity"):
        if name in by_name:
            capacities.append(by_name[name])
        else:
            reader.refuse("capacity", f"lists {name!r}; it may list {' and '.join(by_name)}")
    return tuple(capacities) or (Capacity.SPOT if spot else Capacity.ON_DEMAND,)
