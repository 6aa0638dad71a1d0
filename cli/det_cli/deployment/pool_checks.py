"""Checks of pools: GPUs that the public machine images do not support, and settings that are probably mistakes."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from det_cli.errors import UsageError

if TYPE_CHECKING:
    from det_controlplane.core.config.cluster import ClusterConfig
    from det_controlplane.core.config.pools import Pool
    from det_controlplane.core.config.providers import Section

# Ubuntu with NVIDIA's driver. Machines without GPUs can also run it.
GPU_IMAGE = "projects/ubuntu-os-accelerator-images/global/images/family/ubuntu-accelerator-2204-amd64-with-nvidia-580"
CPU_IMAGE = "projects/ubuntu-os-cloud/global/images/family/ubuntu-2204-lts"

# Machines with GPUs older than NVIDIA's Turing. NVIDIA's open kernel modules in the default images do not support them.
_OLD_GPUS = frozenset({"nvidia-tesla-p4", "nvidia-tesla-p100", "nvidia-tesla-v100"})
_OLD_FAMILIES = frozenset({"p2", "p3", "p3dn", "g3", "g3s"})


def check_gpus(config: Mapping[str, Any]) -> None:
    """Raise UsageError for a pool that uses the default image with GPUs that the image does not support."""
    from det_controlplane.core.config.cluster import load_cluster

    for pool in load_cluster(config).resource_pools:
        for section in pool.sections:
            old = _old_gpu(section)
            if old:
                raise UsageError(
                    f"the default image does not support {old}, which {pool.pool_name} needs: it has NVIDIA's open"
                    " kernel modules, which need a GPU of the Turing generation (T4) or newer",
                    f"give an image with NVIDIA's proprietary driver, version 580 or older, with {_option(section)},"
                    " or use another GPU",
                )


def _old_gpu(section: "Section") -> str:
    """Return the GPU or machine type that the default image does not support, or ''."""
    settings = section.settings
    if section.provider == "aws":
        types = () if settings.get("image_id") else (priced.type.name for priced in section.types)
        return next((name for name in types if name.partition(".")[0] in _OLD_FAMILIES), "")
    gpu = _attached_gpu(settings.get("instance_type"))
    has_default = settings.get("boot_disk_source_image") == GPU_IMAGE
    return gpu if has_default and gpu in _OLD_GPUS else ""


def _option(section: "Section") -> str:
    if section.provider == "aws":
        return "image_id in a configuration (--config FILE)"
    return "--environment-image (boot_disk_source_image in a configuration)"


def _attached_gpu(instance_type: Any) -> str:
    if not isinstance(instance_type, Mapping) or not instance_type.get("gpu_num"):
        return ""
    return str(instance_type.get("gpu_type") or "")


def warnings(config: "ClusterConfig", provider: str, region: str) -> Iterator[str]:
    """Yield warnings about the pools of a cluster in a region of a provider."""
    for pool in config.resource_pools:
        yield from _elsewhere(pool, provider, region)
        yield from _rents_nothing(pool)


def as_rented(pool: "Pool") -> "Pool":
    """Return a pool with only the offers that are within its limits at list prices."""
    limits = pool.limits
    offers = tuple(
        offer
        for offer in pool.offers
        if limits.max_instances
        and (offer.max_price_usd_hour is None or offer.price_usd_hour <= offer.max_price_usd_hour)
        and (limits.max_hourly_cost is None or offer.price_usd_hour <= limits.max_hourly_cost)
    )
    return replace(pool, offers=offers)


def _elsewhere(pool: "Pool", provider: str, region: str) -> Iterator[str]:
    """Yield a warning if a pool rents in the cluster's cloud, but only in other regions."""
    sections = [section for section in pool.sections if section.provider == provider]
    regions = sorted({name for section in sections for name in section.regions})
    if regions and region not in regions:
        yield (
            f"pool {pool.pool_name} rents in {', '.join(regions)}, but the cluster and its bucket are in {region}:"
            f" traffic between regions is billed. A pool without a region setting rents in {region}"
        )


def _rents_nothing(pool: "Pool") -> Iterator[str]:
    """Yield a warning if the limits of a pool exclude all machines."""
    if not pool.offers or as_rented(pool).offers:
        return
    if not pool.limits.max_instances:
        yield f"pool {pool.pool_name} rents no machines: its max_instances is 0"
        return
    cheapest = min(pool.offers, key=lambda offer: offer.price_usd_hour)
    limits = (cheapest.max_price_usd_hour, pool.limits.max_hourly_cost)
    limit = min(limit for limit in limits if limit is not None)
    yield (
        f"pool {pool.pool_name} rents no machines at list prices: its cheapest machine"
        f" ({cheapest.machine_type}, {cheapest.capacity.value}) costs ${cheapest.price_usd_hour:.2f} per hour, and its"
        f" limit is ${limit:.2f}"
    )
