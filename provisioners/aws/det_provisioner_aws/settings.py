"""The AWS section of a pool, with its defaults."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

PROVIDER = "aws"
# An Ubuntu 22.04 image with NVIDIA's driver, Docker and the container toolkit. AWS publishes it in each region.
DEFAULT_IMAGE = (
    "ssm:/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id"
)
# Values of `placement_group` that name no group: one that the provisioner creates for each gang, or none.
AUTOMATIC_GROUP, NO_GROUP = "auto", "none"
LEAST_ROOT_GIB = 100


class BadSettings(ValueError):
    """A setting of the pool with which no machine can be launched. The message has the setting and the remedy."""


@dataclass(frozen=True, slots=True)
class AwsSettings:
    image: str = DEFAULT_IMAGE  # an id, or "ssm:" and the name of a parameter with an id
    root_gib: int = 200
    root_type: str = "gp3"
    root_throughput: int = (
        0  # MiB/s of gp3; 0: a default that depends on whether the machine has GPUs
    )
    kms_key: str = ""
    subnets: tuple[str, ...] = ()  # empty: the default subnets of the region
    security_groups: tuple[str, ...] = ()
    public_ip: bool = True
    key_name: str = ""
    instance_profile: str = ""  # ARN or name
    tags: Mapping[str, str] = field(default_factory=dict)
    spot_max_price: str = ""
    placement_group: str = AUTOMATIC_GROUP
    capacity_reservation: str = ""
    efa_interfaces: int = 0

    @property
    def is_exact(self) -> bool:
        """Return whether machines need placement settings that fleets do not support."""
        return bool(self.named_group or self.capacity_reservation or self.efa_interfaces)

    @property
    def named_group(self) -> str:
        """Return the group that the operator created for all machines of the pool."""
        automatic = self.placement_group in (AUTOMATIC_GROUP, NO_GROUP)
        return "" if automatic else self.placement_group


def read_settings(section: Mapping[str, Any]) -> AwsSettings:
    """Read the settings for launches from a pool's provider section. Raises BadSettings."""
    network = section.get("network_interface") or {}
    if not isinstance(network, Mapping):
        raise BadSettings(f"network_interface is {network!r}: give an object with subnet_id")
    settings = AwsSettings(
        image=_text(section, "image_id") or DEFAULT_IMAGE,
        root_gib=_read_whole_number(section, "root_volume_size", 200),
        root_type=_text(section, "root_volume_type") or "gp3",
        root_throughput=_read_whole_number(section, "root_volume_throughput", 0),
        kms_key=_text(section, "root_volume_kms_key_id"),
        subnets=_texts(network, "subnet_id", "subnet_ids"),
        security_groups=_texts(network, "security_group_id", "security_group_ids"),
        public_ip=bool(network.get("public_ip", True)),
        key_name=_text(section, "ssh_key_name"),
        instance_profile=_text(section, "iam_instance_profile_arn"),
        tags=_tags(section),
        spot_max_price=_text(section, "spot_max_price"),
        placement_group=_text(section, "placement_group") or AUTOMATIC_GROUP,
        capacity_reservation=_text(section, "capacity_reservation_id"),
        efa_interfaces=_read_whole_number(section, "efa_interfaces", 0),
    )
    if settings.root_gib < LEAST_ROOT_GIB:
        raise BadSettings(
            f"root_volume_size is {settings.root_gib} GiB: give {LEAST_ROOT_GIB} or more, images of tasks are large"
        )
    if settings.efa_interfaces > 1 and settings.public_ip:
        raise BadSettings(
            f"efa_interfaces is {settings.efa_interfaces}: machines with several interfaces get no public address,"
            " set network_interface.public_ip to false and give subnets with a NAT gateway"
        )
    return settings


def _text(section: Mapping[str, Any], key: str) -> str:
    value = section.get(key)
    return "" if value is None else str(value)


def _texts(section: Mapping[str, Any], one: str, many: str) -> tuple[str, ...]:
    listed = section.get(many) or ([section[one]] if section.get(one) else [])
    return tuple(str(value) for value in listed)


def _read_whole_number(section: Mapping[str, Any], key: str, default: int) -> int:
    value = section.get(key)
    if value is None:
        return default
    try:
        return int(value)
    except (TypeError, ValueError):
        raise BadSettings(f"{key} is {value!r}: give a whole number") from None


def _tags(section: Mapping[str, Any]) -> dict[str, str]:
    tags = {
        "Name": _text(section, "instance_name") or "determined-ai-agent",
        _text(section, "tag_key") or "managed_by": _text(section, "tag_value") or "determined",
    }
    for tag in section.get("custom_tags") or ():
        if not isinstance(tag, Mapping) or not {"key", "value"} <= tag.keys():
            raise BadSettings(f"custom_tags has {tag!r}: give each tag a key and a value")
        tags[str(tag["key"])] = str(tag["value"])
    return tags
