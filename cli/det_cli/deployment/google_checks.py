"""Check APIs, permissions, machine types and quotas of a Google Cloud project before anything is made in it."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from det_cli.deployment.google import Denied, Google
from det_cli.errors import CommandError
from det_cli.render import Say

# What the stack uses, and what the command and Terraform ask about it. At most twenty can be enabled by one call.
APIS = (
    "artifactregistry", "cloudbilling", "cloudbuild", "cloudquotas", "cloudresourcemanager", "cloudscheduler",
    "compute", "iam", "iamcredentials", "logging", "run", "secretmanager", "servicenetworking", "sqladmin", "storage",
)  # fmt: skip
# The same for an alarm of Google Cloud's own, and the right that it takes on the billing account.
_BUDGET_APIS, _BUDGET_PERMISSION = ("billingbudgets", "monitoring"), "billing.budgets.create"
# One of each kind of right that the stack needs: whoever has these has a role that holds the rest. Not among them are
# rights on a bucket's policy: owners of a project have those on each of its buckets, and not on the project.
PERMISSIONS = (
    "artifactregistry.repositories.create",
    "cloudbuild.builds.create",
    "cloudscheduler.jobs.create",
    "cloudsql.instances.create",
    "compute.firewalls.create",
    "compute.instances.delete",
    "compute.instances.list",
    "compute.networks.create",
    "compute.networks.removePeering",
    "compute.subnetworks.create",
    "iam.roles.create",
    "iam.serviceAccounts.actAs",
    "iam.serviceAccounts.create",
    "iam.serviceAccounts.setIamPolicy",
    "resourcemanager.projects.setIamPolicy",
    "run.services.create",
    "run.services.setIamPolicy",
    "secretmanager.secrets.create",
    "secretmanager.secrets.setIamPolicy",
    "servicenetworking.services.addPeering",
    "storage.buckets.create",
)
# Quotas of a region by GPU.
_GPU_QUOTAS = {
    "nvidia-tesla-p4": "NVIDIA_P4_GPUS",
    "nvidia-tesla-p100": "NVIDIA_P100_GPUS",
    "nvidia-tesla-v100": "NVIDIA_V100_GPUS",
    "nvidia-tesla-t4": "NVIDIA_T4_GPUS",
    "nvidia-l4": "NVIDIA_L4_GPUS",
    "nvidia-tesla-a100": "NVIDIA_A100_GPUS",
    "nvidia-a100-80gb": "NVIDIA_A100_80GB_GPUS",
}
# Newer GPUs share one quota, which counts each family by region; their spot machines have quotas like those above.
_GPU_FAMILIES = {
    "nvidia-h100-80gb": "NVIDIA_H100",
    "nvidia-h100-mega-80gb": "NVIDIA_H100_MEGA",
    "nvidia-h200-141gb": "NVIDIA_H200",
    "nvidia-b200": "NVIDIA_B200",
}
_FAMILY_QUOTA = "GPUS-PER-GPU-FAMILY-per-project-region"
# What shows that an API that was just enabled answers: Terraform would fail where it does not yet.
_HERE = "projects/{project}/locations/{region}"
_PROBES = {
    "artifactregistry": f"/v1/{_HERE}/repositories",
    "cloudbuild": "/v1/projects/{project}/builds",
    "cloudscheduler": f"/v1/{_HERE}/jobs",
    "compute": "/compute/v1/projects/{project}",
    "iam": "/v1/projects/{project}/serviceAccounts",
    "monitoring": "/v3/projects/{project}/notificationChannels",
    "run": f"/v2/{_HERE}/services",
    "secretmanager": "/v1/projects/{project}/secrets",
    "sqladmin": "/v1/projects/{project}/instances",
}
_SKIP = "--no-preflight-checks goes on all the same"

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Machines:
    """Hold the machines that a pool rents, as its configuration says."""

    pool: str
    machine_type: str
    region: str
    zones: tuple[str, ...]  # empty: any of the region
    gpu_type: str  # attached to the machine; empty for the machine's own
    gpu_num: int
    is_spot: bool

    @property
    def place(self) -> str:
        return ", ".join(self.zones) or self.region


def disabled(google: Google, variables: Mapping[str, Any]) -> list[str]:
    """Return the APIs that a stack needs and the project has not. Raises CommandError without the project."""
    path = f"/v1/projects/{google.project}/services"
    found = google.pages("serviceusage", path, "services", filter="state:ENABLED", pageSize="200")
    enabled = {str(service["config"]["name"]) for service in found}
    needed = (*APIS, *(_BUDGET_APIS if _has_budget(variables) else ()))
    return [name for name in needed if f"{name}.googleapis.com" not in enabled]


def _has_budget(variables: Mapping[str, Any]) -> bool:
    return bool(variables.get("monthly_budget_usd"))


def enable(google: Google, names: Sequence[str], say: Say) -> None:
    """Enable APIs; that costs nothing."""
    say(f"Enabling the APIs {', '.join(names)}")
    body = {"serviceIds": [f"{name}.googleapis.com" for name in names]}
    path = f"/v1/projects/{google.project}/services:batchEnable"
    begun = google.call("POST", "serviceusage", path, body)
    if begun is None:
        raise CommandError(f"there is no project {google.project}", "give its id by --project-id")
    google.wait("serviceusage", begun, "/v1")
    google.has_enabled()
    for name in names:
        if name in _PROBES:
            with suppress(CommandError):  # what else is wrong is looked at next
                place = {"project": google.project, "region": google.region}
                google.call("GET", name, _PROBES[name].format(**place))


def check_permissions(google: Google) -> None:
    path = f"/v1/projects/{google.project}:testIamPermissions"
    answer = google.call("POST", "cloudresourcemanager", path, {"permissions": list(PERMISSIONS)})
    if answer is None:
        raise CommandError(f"there is no project {google.project}", "give its id by --project-id")
    missing = sorted(set(PERMISSIONS) - set(answer.get("permissions", ())))
    if missing:
        raise CommandError(
            f"your account lacks {len(missing)} permissions in project {google.project}: {', '.join(missing)}",
            "ask an owner of the project for roles/owner, or for roles that have them",
        )


def check_budget(google: Google, variables: Mapping[str, Any]) -> None:
    """Look whether the alarm that the stack asks for can be made, which owners of the project alone may not."""
    account = str(variables.get("billing_account") or "")
    if not (_has_budget(variables) and account):
        return
    path = f"/v1/billingAccounts/{account}:testIamPermissions"
    try:
        answer = google.call("POST", "cloudbilling", path, {"permissions": [_BUDGET_PERMISSION]})
    except Denied:
        answer = None
    if _BUDGET_PERMISSION not in (answer or {}).get("permissions", ()):
        raise CommandError(
            f"your account lacks {_BUDGET_PERMISSION} on the billing account {account}, or there is none of this id",
            "ask who administers it for roles/billing.costsManager there, or leave out --var monthly_budget_usd",
        )
    with suppress(CommandError):  # waits for an API that was just enabled
        google.call("GET", "billingbudgets", f"/v1/billingAccounts/{account}/budgets", pageSize="1")


def check_machines(google: Google, wanted: Sequence[Machines], say: Say) -> None:
    """Look whether the region has what pools rent, and whether the project may rent one of each."""
    regions = {google.region, *(machines.region for machines in wanted)}
    quotas = {region: _quotas_of_region(google, region) for region in sorted(regions)}
    everywhere = _quotas(
        google.call("GET", "compute", f"/compute/v1/projects/{google.project}") or {}
    )
    for machines in wanted:
        own = _check_offers(google, machines)
        gpus = {**own, **({machines.gpu_type: machines.gpu_num} if machines.gpu_num else {})}
        for quota, needed in _needed(machines, gpus):
            limits = everywhere if quota == "GPUS_ALL_REGIONS" else quotas[machines.region]
            if quota in limits:
                _check_quota(google, machines, quota, needed, limits[quota])
        if not machines.is_spot:
            _check_families(google, machines, gpus, say)
    say(f"Checked {google.project}: credentials, APIs, permissions, machine types and quotas")


def _check_families(google: Google, machines: Machines, gpus: Mapping[str, int], say: Say) -> None:
    for gpu, needed in gpus.items():
        family = _GPU_FAMILIES.get(gpu)
        if family is None:
            continue
        try:
            limit = _limit_of_family(google, machines.region, family)
        except Denied as e:
            say(f"warning: the quota of {family} in {machines.region} cannot be read: {e.cause}")
            continue
        _check_quota(google, machines, f"{_FAMILY_QUOTA} of {family}", needed, limit)


def _limit_of_family(google: Google, region: str, family: str) -> float:
    """Return how many GPUs of a family the project may rent in a region: none where Google gives no limit."""
    path = f"/v1/projects/{google.project}/locations/global/services/compute.googleapis.com/quotaInfos/{_FAMILY_QUOTA}"
    found = google.call("GET", "cloudquotas", path) or {}
    told = {
        info.get("dimensions", {}).get("region", ""): float(info["details"].get("value", 0))
        for info in found.get("dimensionsInfos", ())
        if info.get("dimensions", {}).get("gpu_family") == family
        and region in info.get("applicableLocations", ())
    }
    limit = told.get(region, told.get("", 0.0))
    return math.inf if limit < 0 else limit


def _check_offers(google: Google, machines: Machines) -> dict[str, int]:
    """Return the GPUs that a machine type has by itself. Raises CommandError where its places lack it."""
    types = list(_found(google, "machineTypes", machines.machine_type))
    _must_be_here(machines, f"machine type {machines.machine_type}", [zone for zone, _ in types])
    if machines.gpu_type:
        gpus = _found(google, "acceleratorTypes", machines.gpu_type)
        _must_be_here(machines, f"GPU {machines.gpu_type}", [zone for zone, _ in gpus])
    listed = types[0][1].get("accelerators", ())
    return {str(a["guestAcceleratorType"]): int(a["guestAcceleratorCount"]) for a in listed}


def _must_be_here(machines: Machines, what: str, zones: Sequence[str]) -> None:
    region = [zone for zone in zones if zone.rpartition("-")[0] == machines.region]
    here = [zone for zone in region if not machines.zones or zone in machines.zones]
    if here:
        return
    others = sorted({zone.rpartition("-")[0] for zone in zones} - {machines.region})
    there = ", ".join(region) or ", ".join(others) or "no zone of Google Cloud"
    raise CommandError(
        f"{machines.place} has no {what}, which {machines.pool} asks for; {there} has it",
        f"name a place that has it by --region and --zone, or another type; {_SKIP}",
    )


def _found(google: Google, kind: str, name: str) -> Iterator[tuple[str, Json]]:
    path = f"/compute/v1/projects/{google.project}/aggregated/{kind}"
    page = google.call("GET", "compute", path, filter=f'name = "{name}"', maxResults="500") or {}
    for place, listed in page.get("items", {}).items():
        for found in listed.get(kind, ()):
            yield place.rpartition("/")[2], found


def _needed(machines: Machines, gpus: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    for gpu, number in gpus.items():
        if gpu in _GPU_QUOTAS:
            yield ("PREEMPTIBLE_" if machines.is_spot else "") + _GPU_QUOTAS[gpu], number
        elif gpu in _GPU_FAMILIES and machines.is_spot:
            yield f"PREEMPTIBLE_{_GPU_FAMILIES[gpu]}_GPUS", number
    if gpus:
        yield "GPUS_ALL_REGIONS", sum(gpus.values())


def _check_quota(google: Google, machines: Machines, quota: str, needed: int, limit: float) -> None:
    if limit >= needed:
        return
    page = f"https://console.cloud.google.com/iam-admin/quotas?project={google.project}"
    raise CommandError(
        f"the quota {quota} of {machines.region} is {limit:g}, and a machine of {machines.pool} needs {needed}",
        f"ask for more at {page}, or name another type or region; {_SKIP}",
    )


def _quotas_of_region(google: Google, region: str) -> dict[str, float]:
    found = google.call("GET", "compute", f"/compute/v1/projects/{google.project}/regions/{region}")
    if found is None:
        raise CommandError(
            f"there is no region {region}", "`gcloud compute regions list` shows all: --region NAME"
        )
    return _quotas(found)


def _quotas(found: Json) -> dict[str, float]:
    return {str(q["metric"]): float(q["limit"]) for q in found.get("quotas", ())}


def machines_of(config: Mapping[str, Any]) -> list[Machines]:
    """Return the machines that the pools of a configuration rent from Google Cloud, type by type."""
    from det_controlplane.core.config.cluster import load_cluster

    found = []
    for pool in load_cluster(config).resource_pools:
        for section in pool.sections:
            if section.provider == "gcp":
                found += list(_of_section(pool.pool_name, section))
    return found


def _of_section(pool: str, section: Any) -> Iterator[Machines]:
    written = section.settings.get("instance_type")
    gpus = written if isinstance(written, Mapping) else {}
    for region in sorted({region for region, _ in section.places}):
        zones = tuple(sorted(z for r, z in section.places if r == region and z))
        for priced in section.types:
            for capacity in section.capacities:
                yield Machines(
                    pool=pool, machine_type=priced.type.name, region=region, zones=zones,
                    gpu_type=str(gpus.get("gpu_type") or "") if gpus.get("gpu_num") else "",
                    gpu_num=int(gpus.get("gpu_num") or 0) if gpus.get("gpu_type") else 0,
                    is_spot=capacity.value == "spot",
                )  # fmt: skip
