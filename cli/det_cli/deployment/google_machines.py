"""The machines that the pools of a configuration rent on Google Cloud, for checks before a deployment."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

DISK_GB, DISK_TYPE = 200, "pd-balanced"  # defaults of a provider section


@dataclass(frozen=True)
class Machines:
    """The machines of one type that a pool rents in a region."""

    pool: str
    machine_type: str
    region: str
    zones: tuple[str, ...]  # empty: any zone of the region
    gpu_type: str  # the type of attached GPUs; '' if the machine type includes its GPUs
    gpu_num: int
    is_spot: bool
    vcpus: int = 0
    disk_gb: int = DISK_GB
    disk_type: str = DISK_TYPE
    has_external_ip: bool = True
    image: str = ""  # the path of the boot image

    @property
    def image_project(self) -> str:
        """Return the project of the boot image, or '' if the path does not contain one."""
        _, _, rest = self.image.partition("projects/")
        return rest.partition("/")[0]

    @property
    def place(self) -> str:
        return ", ".join(self.zones) or self.region


def machines_of(config: Mapping[str, Any], *, external_ip: bool = True) -> list[Machines]:
    """Return the machines that the pools of a configuration rent on Google Cloud, one item per type.

    `external_ip` is the default for sections without this setting.
    """
    from det_controlplane.core.config.cluster import load_cluster

    machines = []
    for pool in load_cluster(config).resource_pools:
        for section in pool.sections:
            if section.provider == "gcp":
                machines += list(_section_machines(pool.pool_name, section, external_ip))
    return machines


def _section_machines(pool: str, section: Any, external_ip: bool) -> Iterator[Machines]:
    settings = section.settings
    instance_type = settings.get("instance_type")
    gpus = instance_type if isinstance(instance_type, Mapping) else {}
    network = settings.get("network_interface") or {}
    for region in sorted({region for region, _ in section.places}):
        zones = tuple(sorted(z for r, z in section.places if r == region and z))
        for capacity in section.capacities:
            for priced in section.types_as(capacity):
                yield Machines(
                    pool=pool, machine_type=priced.type.name, region=region, zones=zones,
                    gpu_type=str(gpus.get("gpu_type") or "") if gpus.get("gpu_num") else "",
                    gpu_num=int(gpus.get("gpu_num") or 0) if gpus.get("gpu_type") else 0,
                    is_spot=capacity.value == "spot",
                    vcpus=priced.type.vcpus,
                    disk_gb=int(settings.get("boot_disk_size") or DISK_GB),
                    disk_type=str(settings.get("boot_disk_type") or DISK_TYPE).rpartition("/")[2],
                    has_external_ip=bool(network.get("external_ip", external_ip)),
                    image=str(settings.get("boot_disk_source_image") or ""),
                )  # fmt: skip
