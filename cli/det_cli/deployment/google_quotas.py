"""Checks of a Google Cloud project's quotas for the machines of the pools."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from det_cli.deployment.google import Denied, Google
from det_cli.deployment.google_machines import Machines
from det_cli.errors import CommandError
from det_cli.render import Say

SKIP = "--no-preflight-checks skips this check"
# The regional quota of each GPU type.
GPU_QUOTAS = {
    "nvidia-tesla-p4": "NVIDIA_P4_GPUS",
    "nvidia-tesla-p100": "NVIDIA_P100_GPUS",
    "nvidia-tesla-v100": "NVIDIA_V100_GPUS",
    "nvidia-tesla-t4": "NVIDIA_T4_GPUS",
    "nvidia-l4": "NVIDIA_L4_GPUS",
    "nvidia-tesla-a100": "NVIDIA_A100_GPUS",
    "nvidia-a100-80gb": "NVIDIA_A100_80GB_GPUS",
}
# Newer GPUs share one quota that counts each family by region. Their spot machines may have quotas as above.
GPU_FAMILIES = {
    "nvidia-h100-80gb": "NVIDIA_H100",
    "nvidia-h100-mega-80gb": "NVIDIA_H100_MEGA",
    "nvidia-h200-141gb": "NVIDIA_H200",
    "nvidia-b200": "NVIDIA_B200",
}
_FAMILY_QUOTA = "GPUS-PER-GPU-FAMILY-per-project-region"
# The regional processor quotas of each machine family. Only some projects have E2_CPUS.
_CPU_QUOTAS: Mapping[str, Sequence[str]] = {
    "n1": ("CPUS",), "e2": ("E2_CPUS", "CPUS"), "n2": ("N2_CPUS",), "a2": ("A2_CPUS",),
}  # fmt: skip
_DISK_QUOTAS = {
    "pd-balanced": "SSD_TOTAL_GB",
    "pd-ssd": "SSD_TOTAL_GB",
    "pd-standard": "DISKS_TOTAL_GB",
}
# Alternatives to a higher quota.
_REMEDIES = {
    "SSD_TOTAL_GB": "use smaller disks (--disk-size)",
    "IN_USE_ADDRESSES": "use Cloud NAT (--var machine_external_ip=false)",
}
_OTHERWISE = "use another type or region"

Json = Mapping[str, Any]
Limits = Mapping[str, float]


@dataclass(frozen=True)
class Quotas:
    """The limits of a project, per region and for all regions together."""

    regions: Mapping[str, Limits]
    everywhere: Limits


def read(google: Google, regions: Iterable[str]) -> Quotas:
    """Return the quotas of some regions. Raises CommandError for a region that does not exist."""
    project = google.call("GET", "compute", f"/compute/v1/projects/{google.project}") or {}
    by_region = {region: _region_limits(google, region) for region in sorted(set(regions))}
    return Quotas(by_region, _limits(project))


def _region_limits(google: Google, region: str) -> Limits:
    response = google.call(
        "GET", "compute", f"/compute/v1/projects/{google.project}/regions/{region}"
    )
    if response is None:
        page = f"https://console.cloud.google.com/compute/zones?project={google.project}"
        raise CommandError(f"there is no region {region}", f"{page} lists all regions")
    return _limits(response)


def _limits(response: Json) -> Limits:
    return {str(q["metric"]): float(q["limit"]) for q in response.get("quotas", ())}


def check_gpus(
    google: Google, quotas: Quotas, machines: Machines, gpus: Mapping[str, int], say: Say
) -> None:
    """Raise CommandError if the project's quota is too small for one machine with these GPUs.

    Spot machines count against the preemptible quota if the project has one, otherwise against the standard quota.
    """
    limits = quotas.regions[machines.region]
    for gpu, needed in gpus.items():
        family = GPU_FAMILIES.get(gpu, "")
        quota = GPU_QUOTAS.get(gpu, f"{family}_GPUS")
        preemptible = f"PREEMPTIBLE_{quota}"
        if machines.is_spot and limits.get(preemptible):
            _check_one(google, machines, preemptible, needed, limits[preemptible])
        elif family:
            _check_family(google, machines, family, needed, say)
        elif quota in limits:
            _check_one(google, machines, quota, needed, limits[quota])
    everywhere = quotas.everywhere.get("GPUS_ALL_REGIONS", math.inf)
    _check_one(google, machines, "GPUS_ALL_REGIONS", sum(gpus.values()), everywhere)


def _check_one(google: Google, machines: Machines, quota: str, needed: int, limit: float) -> None:
    if limit < needed:
        requirement = f"a machine of {machines.pool} needs {needed}"
        raise _quota_error(google, f"{quota} of {machines.region}", limit, requirement, _OTHERWISE)


def _quota_error(
    google: Google, quota: str, limit: float, requirement: str, remedy: str
) -> CommandError:
    page = f"https://console.cloud.google.com/iam-admin/quotas?project={google.project}"
    return CommandError(
        f"the quota {quota} is {limit:g}, but {requirement}",
        f"request a higher quota at {page}, or {remedy}; {SKIP}",
    )


def _check_family(google: Google, machines: Machines, family: str, needed: int, say: Say) -> None:
    try:
        limit = _family_limit(google, machines.region, family)
    except Denied as e:
        say(f"warning: the quota of {family} in {machines.region} cannot be read: {e.cause}")
        return
    _check_one(google, machines, f"{_FAMILY_QUOTA} of {family}", needed, limit)


def _family_limit(google: Google, region: str, family: str) -> float:
    """Return the number of GPUs of a family that the project may rent in a region, or 0 if the limit is missing."""
    path = f"/v1/projects/{google.project}/locations/global/services/compute.googleapis.com/quotaInfos/{_FAMILY_QUOTA}"
    response = google.call("GET", "cloudquotas", path) or {}
    limits = {
        info.get("dimensions", {}).get("region", ""): float(info["details"].get("value", 0))
        for info in response.get("dimensionsInfos", ())
        if info.get("dimensions", {}).get("gpu_family") == family
        and region in info.get("applicableLocations", ())
    }
    limit = limits.get(region, limits.get("", 0.0))
    return math.inf if limit < 0 else limit


def check_together(google: Google, quotas: Quotas, machines: Sequence[Machines]) -> None:
    """Raise CommandError if the quotas are too small for one machine of each pool at the same time.

    A pool with several types or regions counts with the smallest requirement.
    """
    pools: defaultdict[str, list[Machines]] = defaultdict(list)
    for one in machines:
        pools[one.pool].append(one)
    for region, limits in quotas.regions.items():
        needs = {pool: _least(choices, region, limits) for pool, choices in pools.items()}
        _check_sums(google, needs, limits, f" of {region}")
    cpus = {
        pool: {"CPUS_ALL_REGIONS": min(one.vcpus for one in choices)}
        for pool, choices in pools.items()
    }
    _check_sums(google, cpus, quotas.everywhere, "")


def _least(choices: Sequence[Machines], region: str, limits: Limits) -> dict[str, int]:
    """Return the smallest amount of each quota that any machine type of the pool needs in a region."""
    needs = [_needs(one, limits) if one.region == region else {} for one in choices]
    names = {name for need in needs for name in need}
    return {name: min(need.get(name, 0) for need in needs) for name in names}


def _needs(machines: Machines, limits: Limits) -> dict[str, int]:
    """Return the amounts that one machine uses of its region's quotas."""
    by_family = _CPU_QUOTAS.get(machines.machine_type.partition("-")[0], ())
    cpus = next((name for name in by_family if name in limits), "")
    if machines.is_spot and limits.get("PREEMPTIBLE_CPUS"):
        cpus = "PREEMPTIBLE_CPUS"
    needs = {
        cpus: machines.vcpus,
        _DISK_QUOTAS.get(machines.disk_type, ""): machines.disk_gb,
        "IN_USE_ADDRESSES": int(machines.has_external_ip),
    }
    return {name: number for name, number in needs.items() if name in limits}


def _check_sums(
    google: Google, needs: Mapping[str, Mapping[str, int]], limits: Limits, where: str
) -> None:
    for quota in sorted({name for need in needs.values() for name in need if name in limits}):
        pools = [pool for pool, need in needs.items() if need.get(quota)]
        total = sum(needs[pool][quota] for pool in pools)
        if limits[quota] < total:
            requirement = f"one machine of each pool ({', '.join(pools)}) needs {total} together"
            remedy = _REMEDIES.get(quota, _OTHERWISE)
            raise _quota_error(google, f"{quota}{where}", limits[quota], requirement, remedy)
