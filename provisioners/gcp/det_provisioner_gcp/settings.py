"""Read a pool's `provider` section for Google Cloud: the fields that describe a machine."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# Built by this project's Packer template, in the cluster's own project.
DEFAULT_IMAGE = "projects/{project}/global/images/family/determined-agent"
# Enough for a machine to prove what it is, and for nothing else.
DEFAULT_SCOPES = ("https://www.googleapis.com/auth/userinfo.email",)
LEAST_DISK_GB = 100


class BadSettings(Exception):
    """A section that describes no machine; the message says what to change."""


@dataclass(frozen=True, slots=True)
class Accelerators:
    """GPUs that are attached to a machine type which has none of its own."""

    type: str
    count: int


@dataclass(frozen=True, slots=True)
class Shielded:
    """Shielded VM options. Secure boot refuses kernel modules that nobody signed, such as many GPU drivers."""

    secure_boot: bool = False
    vtpm: bool = True
    integrity_monitoring: bool = True


@dataclass(frozen=True, slots=True)
class GcpSettings:
    """The settings by which machines of a pool are made."""

    project: str
    image: str
    disk_gb: int
    disk_type: str  # empty: what the machine type takes
    network: str
    subnetwork: str
    has_external_ip: bool
    network_tags: tuple[str, ...]
    service_account: str
    scopes: tuple[str, ...]
    labels: Mapping[str, str]
    attached: Accelerators | None
    shielded: Shielded
    base_config: Mapping[str, Any]  # of a machine, in the API's own form


def project_of(section: Mapping[str, Any], default_project: str) -> str:
    """Return the project of a section. Raises BadSettings where there is none."""
    project = section.get("project") or default_project
    if not project:
        raise BadSettings("`project` is missing: give the id of the Google Cloud project")
    return str(project)


def read_settings(section: Mapping[str, Any], default_project: str) -> GcpSettings:
    """Return a section with its defaults. Raises BadSettings."""
    project = project_of(section, default_project)
    network = _section(section, "network_interface")
    account = _section(section, "service_account")
    disk_gb = int(section.get("boot_disk_size") or 200)
    if disk_gb < LEAST_DISK_GB:
        raise BadSettings(f"`boot_disk_size` is {disk_gb}: give {LEAST_DISK_GB} GB or more")
    return GcpSettings(
        project=project,
        image=section.get("boot_disk_source_image") or DEFAULT_IMAGE.format(project=project),
        disk_gb=disk_gb,
        disk_type=section.get("boot_disk_type") or "",
        network=network.get("network") or "",
        subnetwork=network.get("subnetwork") or "",
        has_external_ip=bool(network.get("external_ip", False)),
        network_tags=tuple(section.get("network_tags") or ()),
        service_account=account.get("email") or "default",
        scopes=tuple(account.get("scopes") or DEFAULT_SCOPES),
        labels=_labels(section),
        attached=_attached(section),
        shielded=Shielded(**_section(section, "shielded")),
        base_config=_section(section, "base_config"),
    )


def _section(section: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = section.get(name) or {}
    if not isinstance(found, Mapping):
        raise BadSettings(f"`{name}` is {found!r}: give an object")
    return found


def _labels(section: Mapping[str, Any]) -> Mapping[str, str]:
    labels = {str(k): str(v) for k, v in _section(section, "labels").items()}
    if section.get("label_key"):
        labels[str(section["label_key"])] = str(section.get("label_value") or "determined")
    return labels


def _attached(section: Mapping[str, Any]) -> Accelerators | None:
    instance_type = section.get("instance_type")
    if not isinstance(instance_type, Mapping) or not instance_type.get("gpu_type"):
        return None
    count = int(instance_type.get("gpu_num") or 0)
    return Accelerators(str(instance_type["gpu_type"]), count) if count else None
