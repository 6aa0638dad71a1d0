"""Read a pool's `provider` section for Google Cloud."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# The image of this project's Packer template, in the cluster's own project.
DEFAULT_IMAGE = "projects/{project}/global/images/family/determined-agent"
# A machine needs only this scope to prove its identity.
DEFAULT_SCOPES = ("https://www.googleapis.com/auth/userinfo.email",)
LEAST_DISK_GB = 100
# Values of `placement_policy` that name no policy: one that the provisioner creates for each gang, or none.
AUTOMATIC_POLICY, NO_POLICY = "auto", "none"


class BadSettings(Exception):
    """A section that does not describe a machine. The message has the remedy."""


@dataclass(frozen=True, slots=True)
class Accelerators:
    """GPUs to attach to a machine type without built-in GPUs."""

    type: str
    count: int


@dataclass(frozen=True, slots=True)
class Shielded:
    """Shielded VM options. Secure boot rejects unsigned kernel modules, such as many GPU drivers."""

    secure_boot: bool = False
    vtpm: bool = True
    integrity_monitoring: bool = True


@dataclass(frozen=True, slots=True)
class GcpSettings:
    """The settings of a pool's machines."""

    project: str
    image: str
    disk_gb: int
    disk_type: str  # empty: the default of the machine type
    network: str
    subnetwork: str
    has_external_ip: bool
    network_tags: tuple[str, ...]
    service_account: str
    scopes: tuple[str, ...]
    labels: Mapping[str, str]
    attached: Accelerators | None
    shielded: Shielded
    placement_policy: (
        str  # a compact placement policy in the region of the machines, or "auto" or "none"
    )
    base_config: Mapping[str, Any]  # properties of a machine in the API's JSON format

    @property
    def named_policy(self) -> str:
        """Return the policy that the operator created for all machines of the pool."""
        automatic = self.placement_policy in (AUTOMATIC_POLICY, NO_POLICY)
        return "" if automatic else self.placement_policy


def project_of(section: Mapping[str, Any], default_project: str) -> str:
    """Return the project of a section. Raises BadSettings if it has none and there is no default."""
    project = section.get("project") or default_project
    if not project:
        raise BadSettings("`project` is missing: give the id of the Google Cloud project")
    return str(project)


def read_settings(section: Mapping[str, Any], default_project: str) -> GcpSettings:
    """Return the settings of a section, with defaults. Raises BadSettings."""
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
        attached=_read_accelerators(section),
        shielded=Shielded(**_section(section, "shielded")),
        placement_policy=str(section.get("placement_policy") or AUTOMATIC_POLICY),
        base_config=_section(section, "base_config"),
    )


def _section(section: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = section.get(name) or {}
    if not isinstance(value, Mapping):
        raise BadSettings(f"`{name}` is {value!r}: give an object")
    return value


def _labels(section: Mapping[str, Any]) -> Mapping[str, str]:
    labels = {str(k): str(v) for k, v in _section(section, "labels").items()}
    if section.get("label_key"):
        labels[str(section["label_key"])] = str(section.get("label_value") or "determined")
    return labels


def _read_accelerators(section: Mapping[str, Any]) -> Accelerators | None:
    instance_type = section.get("instance_type")
    if not isinstance(instance_type, Mapping) or not instance_type.get("gpu_type"):
        return None
    count = int(instance_type.get("gpu_num") or 0)
    return Accelerators(str(instance_type["gpu_type"]), count) if count else None
