"""Images and subnets, looked up by what a pool's settings name, and remembered for a while."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from det_controlplane.core.provision.offers import Offer

from det_provisioner_aws.clients import Clients
from det_provisioner_aws.settings import AwsSettings, BadSettings

REMEMBERED_S = 600.0

Found = TypeVar("Found")


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
    """An offer in one of the subnets that it may have."""

    offer: Offer
    subnet: Subnet


def choices(targets: Sequence[Target]) -> list[Target]:
    """Leave out further subnets of a zone: EC2 refuses fleets that name a type in a zone twice."""
    first = {(t.offer.machine_type, t.subnet.zone): t for t in reversed(targets)}
    return [t for t in targets if first[t.offer.machine_type, t.subnet.zone] is t]


class Places:
    """Answers which image and which subnets machines of a pool get."""

    def __init__(self, clients: Clients, clock: Callable[[], float] = time.monotonic) -> None:
        self._clients = clients
        self._clock = clock
        self._found: dict[tuple[object, ...], tuple[float, Any]] = {}

    def image(self, region: str, settings: AwsSettings) -> Image:
        """Find the image. Raises BadSettings when there is none."""
        key = ("image", region, settings.image)
        return self._remembered(key, lambda: self._look_up_image(region, settings.image))

    def targets(
        self, region: str, settings: AwsSettings, offers: Sequence[Offer]
    ) -> tuple[list[Target], list[Offer]]:
        """Return the offers in each subnet of their zones, in order, and the offers whose zone has none."""
        key = ("subnets", region, settings.subnets)
        subnets = self._remembered(key, lambda: self._look_up_subnets(region, settings.subnets))
        found: list[Target] = []
        without: list[Offer] = []
        for offer in offers:
            fitting = [s for s in subnets if offer.zone in ("", s.zone)]
            found += [Target(offer, subnet) for subnet in fitting]
            without += [] if fitting else [offer]
        return found, without

    def _remembered(self, key: tuple[object, ...], look_up: Callable[[], Found]) -> Found:
        known = self._found.get(key)
        if known is not None and self._clock() - known[0] < REMEMBERED_S:
            return known[1]  # type: ignore[no-any-return]
        found = look_up()
        self._found[key] = (self._clock(), found)
        return found

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
        found = described["Images"][0]
        root = found.get("RootDeviceName") or "/dev/sda1"
        volumes = {m.get("DeviceName"): m.get("Ebs", {}) for m in found["BlockDeviceMappings"]}
        return Image(image_id, root, int(volumes.get(root, {}).get("VolumeSize") or 0))

    def _look_up_subnets(self, region: str, wanted: Sequence[str]) -> list[Subnet]:
        """Return the named subnets in the order of the settings, or the default one of each zone."""
        ec2 = self._clients.reading("ec2", region)
        which: dict[str, Any] = (
            {"SubnetIds": list(wanted)}
            if wanted
            else {"Filters": [{"Name": "default-for-az", "Values": ["true"]}]}
        )
        pages = ec2.get_paginator("describe_subnets").paginate(**which)
        found = [
            Subnet(s["SubnetId"], s["AvailabilityZone"]) for page in pages for s in page["Subnets"]
        ]
        if wanted:
            return sorted(found, key=lambda s: wanted.index(s.subnet_id))
        return sorted(found, key=lambda s: s.zone)
