"""A Google Cloud project for `det deploy gcp`: one server for all APIs, by the first folder of the path. A test sets
its instances, disks and other resources. Builds end at once unless a test decides otherwise.
"""

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from det_cli.deployment.google_checks import APIS, PERMISSIONS

from tests.support import fake_google_jobs
from tests.support.fake_google_jobs import FakeJobs
from tests.support.google_refusals import Refusal
from tests.support.keys import pem_of, rsa_key

Json = dict[str, Any]
Route = Callable[["FakeGoogle", dict[str, str], Any], Any]
PROJECT = "acme"
TAG = r"\w[\w.-]{0,127}"  # the tags that the OCI Distribution Specification allows


@dataclass
class FakeGoogle:
    """The resources of the project. A test may change all of them."""

    url: str = ""
    apis: set[str] = field(default_factory=lambda: set(APIS))
    permissions: set[str] = field(default_factory=lambda: set(PERMISSIONS))
    billing_permissions: set[str] = field(default_factory=set)  # on the account 0A-0B-0C
    # As of a new project that pays, with GPUs that it asked for. It has no preemptible quotas.
    quotas: dict[str, float] = field(
        default_factory=lambda: {
            "CPUS": 200.0, "N2_CPUS": 200.0, "E2_CPUS": 24.0, "PREEMPTIBLE_CPUS": 0.0,
            "IN_USE_ADDRESSES": 8.0, "SSD_TOTAL_GB": 500.0, "DISKS_TOTAL_GB": 4096.0,
            "NVIDIA_T4_GPUS": 4.0, "PREEMPTIBLE_NVIDIA_T4_GPUS": 0.0, "PREEMPTIBLE_NVIDIA_H100_GPUS": 0.0,
        }
    )  # fmt: skip
    quotas_everywhere: dict[str, float] = field(
        default_factory=lambda: {"GPUS_ALL_REGIONS": 4.0, "CPUS_ALL_REGIONS": 32.0}
    )
    types: dict[str, list[str]] = field(
        default_factory=lambda: {
            "n1-standard-8": ["us-west1-a", "us-west1-b"],
            "n1-standard-4": ["us-west1-a", "us-west1-b"],
        }
    )
    gpus: dict[str, list[str]] = field(default_factory=lambda: {"nvidia-tesla-t4": ["us-west1-b"]})
    own_gpus: dict[str, tuple[str, int]] = field(default_factory=dict)  # by machine type
    families: dict[tuple[str, str], int] = field(default_factory=dict)  # limits by family, region
    tells_families: bool = True
    buckets: dict[str, dict[str, bytes]] = field(default_factory=dict)
    bucket_settings: dict[str, Json] = field(default_factory=dict)
    foreign_buckets: set[str] = field(default_factory=set)
    instances: dict[str, Json] = field(default_factory=dict)  # by ZONE/NAME
    leftovers: dict[str, list[Any]] = field(default_factory=dict)  # by kind
    running_jobs: set[str] = field(default_factory=set)  # of Cloud Scheduler
    peerings: list[str] = field(default_factory=list)
    backups: list[Json] = field(default_factory=list)
    operations: dict[str, Json] = field(default_factory=dict)  # of databases, by name
    restored: dict[str, str] = field(default_factory=dict)  # names of backups, by instance
    passwords: dict[str, str] = field(default_factory=dict)  # by INSTANCE/USER
    restoring_ends: Json = field(default_factory=lambda: {"status": "DONE"})
    exchanges: list[tuple[str, str, Json, Any, Any]] = field(default_factory=list)
    tags: dict[str, str] = field(default_factory=dict)  # digests of images
    build_ends: Json = field(default_factory=lambda: {"status": "SUCCESS"})
    builds: list[Json] = field(default_factory=list)
    # `builds.create` reads the source as the builder's account, and refuses until a new grant takes effect.
    build_refusals: list[Refusal] = field(default_factory=list)
    builds_without_rights: int = (
        0  # builds that start and fail, for example because they may not push
    )
    generations: dict[str, int] = field(default_factory=dict)  # of objects, by BUCKET/NAME
    versions: dict[str, dict[int, str]] = field(default_factory=dict)  # states, by secret
    permissions_missing: set[str] = field(default_factory=set)  # denied where they are used
    late: int = 0  # calls that an API refuses after it was enabled
    _refuses: dict[str, int] = field(
        default_factory=dict
    )  # the number of refusals that remain for them
    calls: list[str] = field(default_factory=list)
    # Rules of the organisation that hold in the project, by constraint; others allow all, which is the default.
    policies: dict[str, list[Json]] = field(default_factory=dict)
    token_is_revoked: bool = False
    jobs: FakeJobs = field(default_factory=FakeJobs)  # of Cloud Run
    billing: bool = True

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> Any:
        self.calls.append(f"{method} {path}")
        service = path.split("/")[1]
        if self._refuses.get(service):
            self._refuses[service] -= 1
            message = f"{service} has not been used in project 1 before or it is disabled"
            raise Refusal(403, message, "SERVICE_DISABLED")
        for route_method, pattern, route in _ROUTES:
            match = re.fullmatch(pattern, path)
            if match and route_method == method:
                message = route(self, {**query, **match.groupdict()}, body)
                self.exchanges.append((method, path, query, body, message))
                return message
        raise AssertionError(f"the fake has no route {method} {path}")

    def begin(self, kind: str, **ends: Any) -> Json:
        """Begin an operation on a database, which ends before it is asked about."""
        name = f"operation-{len(self.operations)}"
        self.operations[name] = {"name": name, "operationType": kind, "status": "DONE", **ends}
        return {"name": name, "operationType": kind, "status": "PENDING"}

    def key(self, folder: Path) -> Path:
        """Write a key of a service account with tokens from this server."""
        pem = pem_of(rsa_key("operator", bits=1024))  # short ones are read in a tenth of the time
        account = {
            "type": "service_account", "project_id": PROJECT, "private_key_id": "k", "private_key": pem,
            "client_email": "operator@acme.iam.gserviceaccount.com", "client_id": "1",
            "token_uri": f"{self.url}/oauth2/token",
        }  # fmt: skip
        path = folder / "key.json"
        path.write_text(json.dumps(account))
        return path

    def has_cluster(self, name: str = "lab", **options: Any) -> None:
        self.buckets["acme-determined-deploy"] = {
            f"{name}/default.tfstate": b"{}",
            f"{name}/options.json": json.dumps({"var": [], **options}).encode(),
        }

    def leave_backup(
        self, name: str = "b1", instance: str = "det-lab-0a1b2c", **fields: Any
    ) -> None:
        """Leave the last backup of an instance that is gone."""
        self.backups.append({
            "name": f"projects/acme/backups/{name}", "instance": instance, "type": "FINAL",
            "state": "SUCCESSFUL", "databaseVersion": "POSTGRES_16",
            "backupInterval": {"startTime": f"2026-11-24T12:00:0{len(self.backups)}Z"},
            "instanceSettings": {"settings": {"dataDiskSizeGb": "10"}}, **fields,
        })  # fmt: skip

    def run_machine(self, name: str = "det-1-1", cluster: str = "lab") -> None:
        machine = {"name": name, "zone": "zones/us-west1-b", "labels": {"det-cluster": cluster}}
        machine["scheduling"] = {"provisioningModel": "SPOT"}
        self.instances[f"us-west1-b/{name}"] = machine


def _token(fake: FakeGoogle, query: dict[str, str], body: Any) -> Any:
    if fake.token_is_revoked:
        # The endpoint's own form, which differs from the errors of the APIs.
        refusal = Refusal(400, "invalid_grant")
        refusal.body = {
            "error": "invalid_grant",
            "error_description": "Token has been expired or revoked.",
        }
        raise refusal
    return {"access_token": "token", "expires_in": 3600, "token_type": "Bearer"}


def _services(fake: FakeGoogle, query: dict[str, str], body: Any) -> Any:
    if query["project"] != PROJECT:
        raise Refusal(403, f"Project '{query['project']}' not found or permission denied.")
    return {"services": [{"config": {"name": f"{name}.googleapis.com"}} for name in fake.apis]}


def _enable(fake: FakeGoogle, query: dict[str, str], body: Any) -> Any:
    if not fake.billing:
        raise Refusal(400, "Billing account for project '1' is not found.")
    names = {str(name).removesuffix(".googleapis.com") for name in body["serviceIds"]}
    fake.apis |= names
    fake._refuses = dict.fromkeys(names, fake.late)
    return {"name": "operations/enable", "done": False}


def _test_permissions(fake: FakeGoogle, query: dict[str, str], body: Any) -> Any:
    return {"permissions": [p for p in body["permissions"] if p in fake.permissions]}


def _test_billing(fake: FakeGoogle, query: dict[str, str], body: Any) -> Any:
    if query["account"] != "0A-0B-0C":
        raise Refusal(403, "The caller does not have permission")
    return {"permissions": [p for p in body["permissions"] if p in fake.billing_permissions]}


def _quotas(limits: dict[str, float]) -> list[Json]:
    return [{"metric": name, "limit": limit, "usage": 0.0} for name, limit in limits.items()]


def _region(fake: FakeGoogle, query: dict[str, str], body: Any) -> Any:
    if query["region"] not in ("us-west1", "us-east1"):
        return None
    return {"name": query["region"], "quotas": _quotas(fake.quotas)}


def _family_quota(fake: FakeGoogle, query: dict[str, str], body: Any) -> Any:
    if not fake.tells_families:
        raise Refusal(403, "Permission 'cloudquotas.quotas.get' denied")
    regions = ["us-west1", "us-east1"]
    limits = [
        {
            "dimensions": {"gpu_family": family, **({"region": region} if region else {})},
            "details": {"value": str(limit)} if limit else {},  # proto3 leaves zeroes out
            "applicableLocations": [region] if region else regions,
        }
        for (family, region), limit in fake.families.items()
    ]
    return {"quotaId": "GPUS-PER-GPU-FAMILY-per-project-region", "dimensionsInfos": limits}


def _aggregated(fake: FakeGoogle, query: dict[str, str], body: Any) -> Any:
    kind = query["kind"]
    if kind in ("machineTypes", "acceleratorTypes"):
        name = query["filter"].split('"')[1]
        zones = (fake.types if kind == "machineTypes" else fake.gpus).get(name, [])
        row: Json = {"name": name}
        if kind == "machineTypes" and name in fake.own_gpus:
            gpu, count = fake.own_gpus[name]
            row["accelerators"] = [{"guestAcceleratorType": gpu, "guestAcceleratorCount": count}]
        if "pageToken" not in query:  # a page of a filtered list can be empty before the last page
            return {"items": {"zones/us-west1-a": {"warning": {}}}, "nextPageToken": "2"}
        return {"items": {f"zones/{zone}": {kind: [row]} for zone in zones}}
    key, value = re.fullmatch(r'labels\.([\w-]+)="(.*)"', query["filter"]).groups()  # type: ignore[union-attr]
    rows = list(fake.instances.values()) if kind == "instances" else fake.leftovers.get(kind, [])
    matching = [row for row in rows if row.get("labels", {}).get(key) == value]
    return {"items": {"zones/us-west1-b": {kind: matching}, "zones/us-west1-a": {"warning": {}}}}


def _end_machine(fake: FakeGoogle, query: dict[str, str], body: Any) -> Any:
    return {} if fake.instances.pop(f"{query['zone']}/{query['name']}", None) else None


def _simulate_maintenance(fake: FakeGoogle, query: dict[str, str], body: Any) -> Any:
    """Preempt a spot machine, as the event does there."""
    instance = fake.instances.pop(f"{query['zone']}/{query['name']}", None)
    assert instance is None or instance["scheduling"]["provisioningModel"] == "SPOT", (
        "it would restart"
    )
    return instance and {"operationType": "simulateMaintenanceEvent", "status": "RUNNING"}


def _network(fake: FakeGoogle, query: dict[str, str], body: Any) -> Any:
    if not (fake.peerings or query["network"] in fake.leftovers.get("networks", ())):
        return None
    return {"peerings": [{"name": name} for name in fake.peerings]}


def _part(fake: FakeGoogle, query: dict[str, str], body: Any) -> Any:
    fake.peerings.remove(body["name"])
    return {}


def _bucket(fake: FakeGoogle, query: dict[str, str], body: Any) -> Any:
    if query["bucket"] in fake.foreign_buckets:
        raise Refusal(403, "operator does not have storage.buckets.get access")
    return {"name": query["bucket"]} if query["bucket"] in fake.buckets else None


def _make_bucket(fake: FakeGoogle, query: dict[str, str], body: Any) -> Any:
    fake.buckets[body["name"]] = {}
    fake.bucket_settings[body["name"]] = body
    return body


def _objects(fake: FakeGoogle, query: dict[str, str], body: Any) -> Any:
    names = [n for n in fake.buckets[query["bucket"]] if n.startswith(query.get("prefix", ""))]
    return {"items": [{"name": name} for name in names]}


def _delete_object(fake: FakeGoogle, query: dict[str, str], body: Any) -> Any:
    objects = fake.buckets[query["bucket"]]
    return None if objects.pop(unquote(query["name"]), None) is None else {}


def _object(fake: FakeGoogle, query: dict[str, str], body: Any) -> Any:
    content = fake.buckets[query["bucket"]].get(unquote(query["name"]))
    return None if content is None else json.loads(content)


def _upload(fake: FakeGoogle, query: dict[str, str], body: Any) -> Any:
    """Store an object. Each upload has a larger generation than all earlier uploads."""
    bucket, name = query["bucket"], query["name"]
    fake.buckets[bucket][name] = body
    generation = fake.generations[f"{bucket}/{name}"] = 1763828712000000 + len(fake.calls)
    return {"bucket": bucket, "name": name, "generation": str(generation)}


def _tag(fake: FakeGoogle, query: dict[str, str], body: Any) -> Any:
    digest = fake.tags.get(query["tag"])
    if not digest:
        return None
    package = f"projects/{query['project']}/{query['package']}"
    return {"name": f"{package}/tags/{query['tag']}", "version": f"{package}/versions/{digest}"}


def _begin_build(fake: FakeGoogle, query: dict[str, str], body: Any) -> Any:
    if fake.build_refusals:
        raise fake.build_refusals.pop(0)
    source = body["source"]["storageSource"]
    place = f"{source['bucket']}/{source['object']}"
    newest = fake.generations.get(place)
    generation = source.get("generation", newest)
    if newest is None or int(generation) != newest:
        message = f"could not resolve source: googleapi: Error 404: No such object: {place}#{generation}, notFound"
        raise Refusal(400, message)
    fake.builds.append(body)
    return {"metadata": {"build": {"id": "b1", "status": "QUEUED", "logUrl": "https://log"}}}


def built_digest(number: int) -> str:
    """Return the digest of the image that a build pushed, the first one for 1."""
    return "sha256:" + hashlib.sha256(f"build {number}".encode()).hexdigest()


def _build(fake: FakeGoogle, query: dict[str, str], body: Any) -> Any:
    build = {"id": "b1", "logUrl": "https://log", **fake.build_ends}
    if fake.builds_without_rights:
        fake.builds_without_rights -= 1
        failure = {"type": "PUSH_NOT_AUTHORIZED", "detail": "denied: uploadArtifacts"}
        return {**build, "status": "FAILURE", "failureInfo": failure}
    if build["status"] == "SUCCESS":
        digest = built_digest(len(fake.builds))
        names = fake.builds[-1]["images"]
        # A push moves a tag that exists; the version that had it stays in the repository without the tag.
        fake.tags |= {name.rpartition(":")[2]: digest for name in names}
        build["results"] = {"images": [{"name": name, "digest": digest} for name in names]}
    return build


def _shift_traffic(fake: FakeGoogle, query: dict[str, str], body: Any) -> Any:
    (service,) = [s for s in fake.leftovers["services"] if s["name"].endswith(f"/{query['name']}")]
    service["trafficStatuses"] = body["traffic"]
    return {"name": "projects/acme/locations/l/operations/o1", "done": False}


def _versions(fake: FakeGoogle, query: dict[str, str], body: Any) -> Any:
    """List versions of a secret, the newest first, two a page. Destroyed versions stay in the list."""
    if "secretmanager.versions.list" in fake.permissions_missing:
        raise Refusal(403, "Permission 'secretmanager.versions.list' denied on resource")
    secret = f"projects/1/secrets/{query['secret']}"
    versions = [
        {"name": f"{secret}/versions/{number}", "state": state}
        for number, state in sorted(fake.versions[query["secret"]].items(), reverse=True)
    ]
    begin = int(query.get("pageToken", 0))
    more = {"nextPageToken": str(begin + 2)} if begin + 2 < len(versions) else {}
    return {"versions": versions[begin : begin + 2], "totalSize": len(versions), **more}


def _destroy_version(fake: FakeGoogle, query: dict[str, str], body: Any) -> Any:
    states, number = fake.versions[query["secret"]], int(query["version"])
    if states[number] == "DESTROYED":
        raise Refusal(400, f"Secret Version [{number}] is already in DESTROYED state.")
    states[number] = "DESTROYED"
    return {"state": "DESTROYED"}


def _policy(fake: FakeGoogle, query: dict[str, str], body: Any) -> Any:
    if "orgpolicy.policy.get" in fake.permissions_missing:
        raise Refusal(403, "Permission 'orgpolicy.policy.get' denied on resource")
    constraint = query["constraint"]
    default: Json = {"enforce": False} if ".managed." in constraint else {"allowAll": True}
    rules = fake.policies.get(constraint, [default])
    return {"name": f"projects/1/policies/{constraint}", "spec": {"rules": rules}}


def _restore(fake: FakeGoogle, query: dict[str, str], body: Any) -> Any:
    fake.restored[query["instance"]] = body["backup"]
    return fake.begin("RESTORE_VOLUME", **fake.restoring_ends)


def _set_password(fake: FakeGoogle, query: dict[str, str], body: Any) -> Any:
    fake.passwords[f"{query['instance']}/{query['name']}"] = body["password"]
    return fake.begin("UPDATE_USER")


def _leftover(kind: str) -> Route:
    return lambda fake, query, body: {kind: fake.leftovers.get(kind, [])}


def _named(kind: str) -> Route:
    """Look for one thing by its name. Jobs are paused unless a test says otherwise."""

    def look(fake: FakeGoogle, query: dict[str, str], body: Any) -> Any:
        state = "ENABLED" if query["name"] in fake.running_jobs else "PAUSED"
        return {"state": state} if query["name"] in fake.leftovers.get(kind, ()) else None

    return look


_P, _COMPUTE = r"projects/(?P<project>[^/]+)", "/compute/compute/v1/projects/[^/]+"
_ROUTES: tuple[tuple[str, str, Route], ...] = (
    ("POST", "/oauth2/token", _token),
    ("GET", f"/serviceusage/v1/{_P}/services", _services),
    ("POST", f"/serviceusage/v1/{_P}/services:batchEnable", _enable),
    ("GET", "/serviceusage/v1/operations/.*", lambda fake, query, body: {"done": True}),
    ("POST", f"/cloudresourcemanager/v1/{_P}:testIamPermissions", _test_permissions),
    (
        "POST",
        "/cloudbilling/v1/billingAccounts/(?P<account>[^/]+):testIamPermissions",
        _test_billing,
    ),
    ("GET", _COMPUTE, lambda fake, query, body: {"quotas": _quotas(fake.quotas_everywhere)}),
    (
        "GET",
        f"/cloudquotas/v1/{_P}/locations/global/services/compute.googleapis.com/quotaInfos/"
        "GPUS-PER-GPU-FAMILY-per-project-region",
        _family_quota,
    ),
    ("GET", f"{_COMPUTE}/regions/(?P<region>[^/]+)", _region),
    ("GET", f"{_COMPUTE}/aggregated/(?P<kind>\\w+)", _aggregated),
    ("DELETE", f"{_COMPUTE}/zones/(?P<zone>[^/]+)/instances/(?P<name>[^/]+)", _end_machine),
    (
        "POST",
        f"{_COMPUTE}/zones/(?P<zone>[^/]+)/instances/(?P<name>[^/]+)/simulateMaintenanceEvent",
        _simulate_maintenance,
    ),
    ("GET", f"{_COMPUTE}/global/networks/(?P<network>[^/]+)", _network),
    (
        "GET",
        f"/artifactregistry/v1/{_P}/locations/[^/]+/repositories/(?P<name>[^/]+)",
        _named("repositories"),
    ),
    ("GET", f"/artifactregistry/v1/{_P}/locations/[^/]+/repositories", _leftover("listed")),
    ("GET", f"/cloudscheduler/v1/{_P}/locations/[^/]+/jobs", _leftover("listed")),
    ("GET", "/billingbudgets/v1/billingAccounts/[^/]+/budgets", _leftover("listed")),
    ("GET", f"/monitoring/v3/{_P}/notificationChannels", _leftover("listed")),
    ("GET", f"/cloudbuild/v1/{_P}/builds", _leftover("listed")),
    ("GET", f"/cloudscheduler/v1/{_P}/locations/[^/]+/jobs/(?P<name>[^/]+)", _named("jobs")),
    ("GET", f"/iam/v1/{_P}/serviceAccounts", _leftover("accounts")),
    ("POST", f"{_COMPUTE}/global/networks/[^/]+/removePeering", _part),
    ("GET", "/storage/storage/v1/b/(?P<bucket>[^/]+)", _bucket),
    ("POST", "/storage/storage/v1/b", _make_bucket),
    ("GET", "/storage/storage/v1/b/(?P<bucket>[^/]+)/o", _objects),
    ("GET", "/storage/storage/v1/b/(?P<bucket>[^/]+)/o/(?P<name>.+)", _object),
    ("DELETE", "/storage/storage/v1/b/(?P<bucket>[^/]+)/o/(?P<name>.+)", _delete_object),
    ("POST", "/storage/upload/storage/v1/b/(?P<bucket>[^/]+)/o", _upload),
    (
        "GET",
        f"/artifactregistry/v1/{_P}/(?P<package>locations/[^/]+/repositories/[^/]+/packages/controlplane)"
        f"/tags/(?P<tag>{TAG})",
        _tag,
    ),
    ("POST", f"/cloudbuild/v1/{_P}/builds", _begin_build),
    ("GET", f"/cloudbuild/v1/{_P}/builds/b1", _build),
    ("GET", f"/sqladmin/v1/{_P}/instances", _leftover("items")),
    ("GET", f"/sqladmin/v1/{_P}/backups", lambda fake, query, body: {"backups": fake.backups}),
    (
        "GET",
        f"/sqladmin/v1/{_P}/operations",
        lambda fake, query, body: {"items": [*fake.operations.values()]},
    ),
    (
        "GET",
        f"/sqladmin/v1/{_P}/operations/(?P<name>[^/]+)",
        lambda fake, query, body: fake.operations[query["name"]],
    ),
    ("POST", f"/sqladmin/v1/{_P}/instances/(?P<instance>[^/]+)/restoreBackup", _restore),
    ("PUT", f"/sqladmin/v1/{_P}/instances/(?P<instance>[^/]+)/users", _set_password),
    ("GET", f"/run/v2/{_P}/locations/[^/]+/services", _leftover("services")),
    ("PATCH", f"/run/v2/{_P}/locations/[^/]+/services/(?P<name>[^/]+)", _shift_traffic),
    ("GET", "/run/v2/projects/.*/operations/o1", lambda fake, query, body: {"done": True}),
    (
        "GET",
        f"/orgpolicy/v2/{_P}/policies/(?P<constraint>[\\w.]+):getEffectivePolicy",
        _policy,
    ),
    ("GET", f"/secretmanager/v1/{_P}/secrets", _leftover("secrets")),
    ("GET", f"/secretmanager/v1/{_P}/secrets/(?P<secret>[^/]+)/versions", _versions),
    (
        "POST",
        f"/secretmanager/v1/{_P}/secrets/(?P<secret>[^/]+)/versions/(?P<version>\\d+):destroy",
        _destroy_version,
    ),
    *fake_google_jobs.ROUTES,
)
