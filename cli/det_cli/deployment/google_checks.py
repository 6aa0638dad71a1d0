"""Check APIs, permissions and machine types of a Google Cloud project before anything is made in it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from det_cli.deployment import google_quotas
from det_cli.deployment.google import Denied, Google
from det_cli.deployment.google_machines import Machines
from det_cli.deployment.google_quotas import SKIP
from det_cli.errors import CommandError
from det_cli.render import Say

# What the stack uses, and what the command and Terraform ask about it. At most twenty can be enabled by one call.
APIS = (
    "artifactregistry", "cloudbilling", "cloudbuild", "cloudquotas", "cloudresourcemanager", "cloudscheduler",
    "compute", "iam", "iamcredentials", "logging", "orgpolicy", "run", "secretmanager", "servicenetworking", "sqladmin",
    "storage",
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

Json = Mapping[str, Any]


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
    """Raise CommandError if a region lacks a machine type or GPU of a pool, or the project lacks its quota."""
    quotas = google_quotas.read(google, {google.region, *(machines.region for machines in wanted)})
    for machines in wanted:
        own = _check_offers(google, machines)
        gpus = {**own, **({machines.gpu_type: machines.gpu_num} if machines.gpu_num else {})}
        google_quotas.check_gpus(google, quotas, machines, gpus, say)
    google_quotas.check_together(google, quotas, wanted)
    say(f"Checked {google.project}: credentials, APIs, permissions, machine types and quotas")


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
        f"name a place that has it by --region and --zone, or another type; {SKIP}",
    )


def _found(google: Google, kind: str, name: str) -> Iterator[tuple[str, Json]]:
    path = f"/compute/v1/projects/{google.project}/aggregated/{kind}"
    page = google.call("GET", "compute", path, filter=f'name = "{name}"', maxResults="500") or {}
    for place, listed in page.get("items", {}).items():
        for found in listed.get(kind, ()):
            yield place.rpartition("/")[2], found
