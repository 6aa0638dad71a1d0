"""Images and subnets of a pool's settings, cached for some time."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from det_controlplane.core.provision.offers import Offer

from det_provisioner_aws.clients import Clients
from det_provisioner_aws.settings import AwsSettings, BadSettings

CACHE_S = 600.0

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Image:
    image_id: str
    root_device: str
    least_gib: int


@dataclass(frozen=True, slots=True)
class Subnet:
    subnet_id: str
    zone: str


@dataclass(frozen=True, slots=True)
class Target:
    """An offer in one of its possible subnets."""

    offer: Offer
    subnet: Subnet


def choices(targets: Sequence[Target]) -> list[Target]:
    """Keep one subnet for each zone, because EC2 rejects fleets with two entries for the same type and zone."""
    first = {(t.offer.machine_type, t.subnet.zone): t for t in reversed(targets)}
    return [t for t in targets if first[t.offer.machine_type, t.subnet.zone] is t]


class Places:
    """Finds the image and the subnets for the machines of a pool."""

    def __init__(self, clients: Clients, clock: Callable[[], float] = time.monotonic) -> None:
        self._clients = clients
        self._clock = clock
        self._cache: dict[tuple[object, ...], tuple[float, Any]] = {}

    def image(self, region: str, settings: AwsSettings) -> Image:
        """Return the image. Raises BadSettings if it does not exist."""
        key = ("image", region, settings.image)
        return self._cached(key, lambda: self._look_up_image(region, settings.image))

    def targets(
        self, region: str, settings: AwsSettings, offers: Sequence[Offer]
    ) -> tuple[list[Target], list[Offer]]:
        """Return each offer with each subnet of its zone, in order, and the offers with no subnet in their zone."""
        key = ("subnets", region, settings.subnets)
        subnets = self._cached(key, lambda: self._look_up_subnets(region, settings.subnets))
        targets: list[Target] = []
        without_subnet: list[Offer] = []
        for offer in offers:
            matching = [s for s in subnets if offer.zone in ("", s.zone)]
            targets += [Target(offer, subnet) for subnet in matching]
            without_subnet += [] if matching else [offer]
        return targets, without_subnet

    def _cached(self, key: tuple[object, ...], look_up: Callable[[], Value]) -> Value:
        entry = self._cache.get(key)
        if entry is not None and self._clock() - entry[0] < CACHE_S:
            return entry[1]  # type: ignore[no-any-return]
        value = look_up()
        self._cache[key] = (self._clock(), value)
        return value

    def _look_up_image(self, region: str, image: str) -> Image:
        image_id = image
        if image.startswith("ssm:"):
            name = image.removeprefix("ssm:")
            parameters = self._clients.reading("ssm", region).get_parameters(Names=[name])
            if not parameters["Parameters"]:
                raise BadSettings(
                    f"image_id: {region} has no parameter {name}: give the id of an image"
                )
            image_id = parameters["Parameters"][0]["Value"]
        described = self._clients.reading("ec2", region).describe_images(ImageIds=[image_id])
        if not described["Images"]:
            raise BadSettings(f"image_id: {image_id} is not in {region}, or not shared with us")
        description = described["Images"][0]
        root = description.get("RootDeviceName") or "/dev/sda1"
        volumes = {
            m.get("DeviceName"): m.get("Ebs", {}) for m in description["BlockDeviceMappings"]
        }
        return Image(image_id, root, int(volumes.get(root, {}).get("VolumeSize") or 0))

    def _look_up_subnets(self, region: str, names: Sequence[str]) -> list[Subnet]:
        """Return the named subnets in the order of the settings, or the default subnet of each zone."""
        ec2 = self._clients.reading("ec2", region)
        selection: dict[str, Any] = (
            {"SubnetIds": list(names)}
            if names
            else {"Filters": [{"Name": "default-for-az", "Values": ["true"]}]}
        )
        pages = ec2.get_paginator("describe_subnets").paginate(**selection)
        subnets = [
            Subnet(s["SubnetId"], s["AvailabilityZone"]) for page in pages for s in page["Subnets"]
        ]
        if names:
            return sorted(subnets, key=lambda s: names.index(s.subnet_id))
        return sorted(subnets, key=lambda s: s.zone)
