"""Describe the machines of a pool in the fields of Determined's API. Start-up scripts are left out, because they may
contain secrets.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from det_controlplane.core.config.pools import Pool
from det_controlplane.core.config.providers import Section
from det_controlplane.core.provision.offers import Capacity

_NO_SETTINGS: Mapping[str, Any] = {}


def of_machines(pool: Pool) -> dict[str, Any]:
    """Return the fields of a pool that follow from its sections. If a pool has several sections, the first one
    describes it."""
    if not pool.sections:
        return {"location": "on-prem"}
    first = pool.sections[0]
    settings = first.settings
    return {
        "location": _join_distinct(
            place for section in pool.sections for place in _places(section)
        ),
        "instanceType": _join_distinct(
            t.type.name for section in pool.sections for t in section.types
        ),
        "imageId": _text(settings, "image_id", "boot_disk_source_image"),
        "accelerator": _join_distinct(t.type.accelerator for s in pool.sections for t in s.types),
    }


def details(pool: Pool) -> dict[str, Any]:
    """Return the parts of a pool's details about each cloud, from the cloud's first section.

    Determined's API has fields for AWS and Google Cloud only."""
    parts: dict[str, Any] = {"aws": None, "gcp": None}
    details_of = {"aws": _aws, "gcp": _gcp}
    for section in reversed(pool.sections):
        if section.provider in details_of:
            parts[section.provider] = details_of[section.provider](section)
    return parts


def slots_per_agent(pool: Pool) -> int:
    """Return the slots of the machines that the pool rents first."""
    return pool.offers[0].slots if pool.offers else 0


def _places(section: Section) -> Iterable[str]:
    """Return zones where they are chosen on Google Cloud, else regions: as Determined has it."""
    zones = [zone for _, zone in section.places if zone]
    return zones if section.provider == "gcp" and zones else section.regions


def _aws(section: Section) -> dict[str, Any]:
    settings = section.settings
    network = _object(settings, "network_interface")
    return {
        "region": _join_distinct(section.regions), "instanceType": _join_distinct(t.type.name for t in section.types),
        "imageId": _text(settings, "image_id"), "rootVolumeSize": int(settings.get("root_volume_size") or 200),
        "tagKey": _text(settings, "tag_key") or "managed_by", "tagValue": _text(settings, "tag_value") or "determined",
        "instanceName": _text(settings, "instance_name") or "determined-ai-agent",
        "sshKeyName": _text(settings, "ssh_key_name"), "publicIp": bool(network.get("public_ip", True)),
        "subnetId": _one(network, "subnet_id", "subnet_ids"),
        "securityGroupId": _one(network, "security_group_id", "security_group_ids"),
        "iamInstanceProfileArn": _text(settings, "iam_instance_profile_arn"),
        "spotEnabled": Capacity.SPOT in section.capacities,
        "spotMaxPrice": _text(settings, "spot_max_price"),
        "customTags": [{"key": str(t.get("key", "")), "value": str(t.get("value", ""))}
                       for t in settings.get("custom_tags") or () if isinstance(t, Mapping)],
        "logGroup": "", "logStream": "",
    }  # fmt: skip


def _gcp(section: Section) -> dict[str, Any]:
    settings = section.settings
    network, account = _object(settings, "network_interface"), _object(settings, "service_account")
    instance = _object(settings, "instance_type")
    return {
        "project": _text(settings, "project"), "zone": _join_distinct(_places(section)),
        "bootDiskSize": int(settings.get("boot_disk_size") or 200),
        "bootDiskSourceImage": _text(settings, "boot_disk_source_image"),
        "labelKey": _text(settings, "label_key"), "labelValue": _text(settings, "label_value"), "namePrefix": "",
        "network": _text(network, "network"), "subnetwork": _text(network, "subnetwork"),
        "externalIp": bool(network.get("external_ip", False)), "networkTags": list(settings.get("network_tags") or ()),
        "serviceAccountEmail": _text(account, "email"), "serviceAccountScopes": list(account.get("scopes") or ()),
        "machineType": _join_distinct(t.type.name for t in section.types),
        "gpuType": _text(instance, "gpu_type"), "gpuNum": int(instance.get("gpu_num") or 0),
        "preemptible": Capacity.SPOT in section.capacities, "operationTimeoutPeriod": 0.0,
    }  # fmt: skip


def _join_distinct(values: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(value for value in values if value))


def _text(settings: Mapping[str, Any], *names: str) -> str:
    return next((str(settings[name]) for name in names if settings.get(name)), "")


def _one(settings: Mapping[str, Any], name: str, list_name: str) -> str:
    return _text(settings, name) or _join_distinct(map(str, settings.get(list_name) or ()))


def _object(settings: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = settings.get(name)
    return value if isinstance(value, Mapping) else _NO_SETTINGS
