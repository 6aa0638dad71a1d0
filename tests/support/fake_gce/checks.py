"""Refusals of the API for descriptions of machines."""

import re
from collections.abc import Mapping
from typing import Any

from tests.support.fake_gce.errors import GceError

_NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_LABEL = re.compile(r"[a-z][-_a-z0-9]{0,62}")
_LABEL_VALUE = re.compile(r"[-_a-z0-9]{0,63}")
BUILT_IN = ("a2-", "a3-", "g2-")
SPOT_ONLY = frozenset({"a3-highgpu-1g", "a3-highgpu-2g", "a3-highgpu-4g"})


def check_instance(
    body: Mapping[str, Any], project: str, zone: str, machine_types: Mapping[str, Any]
) -> None:
    """Raise the error that the API answers to a wrong description."""
    if not _NAME.fullmatch(body.get("name", "")):
        raise _invalid("resource.name", body.get("name"))
    machine_type = str(body.get("machineType", "")).rpartition("/")[2]
    if machine_type not in machine_types or f"zones/{zone}/" not in body["machineType"]:
        raise _invalid("resource.machineType", body.get("machineType"))
    disks = body.get("disks", [])
    labelled = [body, *(disk.get("initializeParams", {}) for disk in disks)]
    for key, value in ((k, v) for each in labelled for k, v in each.get("labels", {}).items()):
        if not _LABEL.fullmatch(key) or not _LABEL_VALUE.fullmatch(value):
            raise _invalid("resource.labels", f"{key}={value}")
    _check_scheduling(body, machine_type)
    if not disks or not disks[0].get("boot") or "initializeParams" not in disks[0]:
        raise _invalid("resource.disks", disks)
    if not body.get("networkInterfaces"):
        raise _invalid("resource.networkInterfaces", "")
    for disk in disks:
        disk_type = disk["initializeParams"].get("diskType", "")
        if "/" in disk_type and f"zones/{zone}/" not in disk_type:
            raise _invalid("resource.disks[0].initializeParams.diskType", disk_type)


def _check_scheduling(body: Mapping[str, Any], machine_type: str) -> None:
    scheduling = body.get("scheduling", {})
    attached = body.get("guestAccelerators", [])
    if attached and machine_type.startswith(BUILT_IN):
        raise _invalid("resource.guestAccelerators", attached)
    has_gpu = bool(attached) or machine_type.startswith(BUILT_IN)
    if has_gpu and scheduling.get("onHostMaintenance") != "TERMINATE":
        raise GceError(
            400, "invalid", "Instances with guest accelerators do not support live migration."
        )
    is_spot = scheduling.get("provisioningModel") == "SPOT"
    if machine_type in SPOT_ONLY and not is_spot:
        # The status is documented, the sentence is not.
        raise GceError(
            400, "invalid", f"Machine type {machine_type} takes the provisioning model SPOT."
        )
    if is_spot:
        if scheduling.get("automaticRestart", True):
            raise _invalid("scheduling.automaticRestart", True)
    elif "instanceTerminationAction" in scheduling:
        raise _invalid("scheduling.instanceTerminationAction", "without SPOT")


def _invalid(field: str, value: Any) -> GceError:
    return GceError(400, "invalid", f"Invalid value for field '{field}': '{value}'.")
