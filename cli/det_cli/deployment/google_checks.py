"""Checks of a Google Cloud project before a deployment: APIs, permissions and machine types."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from det_cli.deployment import google_quotas
from det_cli.deployment.google import Denied, Google
from det_cli.deployment.google_machines import Machines
from det_cli.deployment.google_quotas import SKIP
from det_cli.errors import CommandError
from det_cli.render import Say

# APIs that the stack, the command and Terraform use. One call can enable at most twenty.
APIS = (
    "artifactregistry", "cloudbilling", "cloudbuild", "cloudquotas", "cloudresourcemanager", "cloudscheduler",
    "compute", "iam", "iamcredentials", "logging", "orgpolicy", "run", "secretmanager", "servicenetworking", "sqladmin",
    "storage",
)  # fmt: skip
# APIs for a billing budget, and the permission that it needs on the billing account.
_BUDGET_APIS, _BUDGET_PERMISSION = ("billingbudgets", "monitoring"), "billing.budgets.create"
# One permission of each kind that the stack needs. Roles with these permissions also include the others. Permissions
# on bucket policies are not listed, because project owners have them on each bucket but not on the project.
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
# A request to each API that shows when a newly enabled API responds. Terraform would fail before that.
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

Json = Mapping[str, Any]


def disabled(google: Google, variables: Mapping[str, Any]) -> list[str]:
    """Return the APIs that the stack needs and the project has not enabled. Raises CommandError without the project."""
    path = f"/v1/projects/{google.project}/services"
    services = google.pages(
        "serviceusage", path, "services", filter="state:ENABLED", pageSize="200"
    )
    enabled = {str(service["config"]["name"]) for service in services}
    needed = (*APIS, *(_BUDGET_APIS if _has_budget(variables) else ()))
    return [name for name in needed if f"{name}.googleapis.com" not in enabled]


def _has_budget(variables: Mapping[str, Any]) -> bool:
    return bool(variables.get("monthly_budget_usd"))


def enable(google: Google, names: Sequence[str], say: Say) -> None:
    """Enable APIs, which is free of charge."""
    say(f"Enabling the APIs {', '.join(names)}")
    body = {"serviceIds": [f"{name}.googleapis.com" for name in names]}
    path = f"/v1/projects/{google.project}/services:batchEnable"
    operation = google.call("POST", "serviceusage", path, body)
    if operation is None:
        raise CommandError(f"there is no project {google.project}", "give its id by --project-id")
    google.wait("serviceusage", operation, "/v1")
    google.retry_disabled()
    for name in names:
        if name in _PROBES:
            with suppress(CommandError):  # later checks report other problems
                place = {"project": google.project, "region": google.region}
                google.call("GET", name, _PROBES[name].format(**place))


def check_permissions(google: Google) -> None:
    path = f"/v1/projects/{google.project}:testIamPermissions"
    response = google.call("POST", "cloudresourcemanager", path, {"permissions": list(PERMISSIONS)})
    if response is None:
        raise CommandError(f"there is no project {google.project}", "give its id by --project-id")
    missing = sorted(set(PERMISSIONS) - set(response.get("permissions", ())))
    if missing:
        raise CommandError(
            f"your account lacks {len(missing)} permissions in project {google.project}: {', '.join(missing)}",
            "ask an owner of the project for roles/owner, or for roles that have them",
        )


def check_budget(google: Google, variables: Mapping[str, Any]) -> None:
    """Check the permission to create the billing budget, which project owners do not have by default."""
    account = str(variables.get("billing_account") or "")
    if not (_has_budget(variables) and account):
        return
    path = f"/v1/billingAccounts/{account}:testIamPermissions"
    try:
        response = google.call("POST", "cloudbilling", path, {"permissions": [_BUDGET_PERMISSION]})
    except Denied:
        response = None
    if _BUDGET_PERMISSION not in (response or {}).get("permissions", ()):
        raise CommandError(
            f"your account lacks {_BUDGET_PERMISSION} on the billing account {account}, or this id does not exist",
            "ask its administrator for roles/billing.costsManager, or leave --var monthly_budget_usd out",
        )
    with suppress(CommandError):  # this call waits until a newly enabled API responds
        google.call("GET", "billingbudgets", f"/v1/billingAccounts/{account}/budgets", pageSize="1")


def check_machines(google: Google, all_machines: Sequence[Machines], say: Say) -> None:
    """Raise CommandError if a region lacks a machine type or GPU of a pool, or the project lacks its quota."""
    quotas = google_quotas.read(
        google, {google.region, *(machines.region for machines in all_machines)}
    )
    for machines in all_machines:
        included = _check_offers(google, machines)
        gpus = {**included, **({machines.gpu_type: machines.gpu_num} if machines.gpu_num else {})}
        google_quotas.check_gpus(google, quotas, machines, gpus, say)
    google_quotas.check_together(google, quotas, all_machines)
    say(f"Checked {google.project}: credentials, APIs, permissions, machine types and quotas")


def _check_offers(google: Google, machines: Machines) -> dict[str, int]:
    """Return the GPUs included in a machine type. Raises CommandError if the type is not available."""
    types = list(_search(google, "machineTypes", machines.machine_type))
    _check_available(machines, f"machine type {machines.machine_type}", [zone for zone, _ in types])
    if machines.gpu_type:
        gpus = _search(google, "acceleratorTypes", machines.gpu_type)
        _check_available(machines, f"GPU {machines.gpu_type}", [zone for zone, _ in gpus])
    accelerators = types[0][1].get("accelerators", ())
    return {str(a["guestAcceleratorType"]): int(a["guestAcceleratorCount"]) for a in accelerators}


def _check_available(machines: Machines, item: str, zones: Sequence[str]) -> None:
    region = [zone for zone in zones if zone.rpartition("-")[0] == machines.region]
    here = [zone for zone in region if not machines.zones or zone in machines.zones]
    if here:
        return
    others = sorted({zone.rpartition("-")[0] for zone in zones} - {machines.region})
    elsewhere = ", ".join(region) or ", ".join(others) or "no zone of Google Cloud"
    raise CommandError(
        f"{machines.place} has no {item}, which {machines.pool} needs; {elsewhere} has it",
        f"give a --region and --zone that has it, or another type; {SKIP}",
    )


def _search(google: Google, kind: str, name: str) -> Iterator[tuple[str, Json]]:
    path = f"/compute/v1/projects/{google.project}/aggregated/{kind}"
    return google.aggregated(path, kind, filter=f'name = "{name}"', maxResults="500")
