"""The state of the fake: instances and operations that change with time.

A compact placement policy has room for `most_in_policy` machines. The fake leaves out that a policy stays in one zone,
and that a new policy cannot be used for a moment.
"""

import itertools
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from tests.support.fake_gce.checks import check_instance
from tests.support.fake_gce.errors import (
    MIN_COUNT_NOT_REACHED,
    GceError,
    OperationError,
    stockout,
)

Body = dict[str, Any]
API = "https://www.googleapis.com/compute/v1"
ZONES = ("us-central1-a", "us-central1-b", "us-central1-c", "europe-west4-a", "europe-west4-b")
MACHINE_TYPES: Mapping[str, Body] = {
    "e2-standard-4": {"guestCpus": 4, "memoryMb": 16384},
    "n1-standard-8": {"guestCpus": 8, "memoryMb": 30720},
    "g2-standard-8": {
        "guestCpus": 8, "memoryMb": 32768,
        "accelerators": [{"guestAcceleratorType": "nvidia-l4", "guestAcceleratorCount": 1}],
    },
    "a2-ultragpu-1g": {
        "guestCpus": 12, "memoryMb": 174080,
        "accelerators": [{"guestAcceleratorType": "nvidia-a100-80gb", "guestAcceleratorCount": 1}],
        "bundledLocalSsds": {"partitionCount": 1, "defaultInterface": "NVME"},
    },
    "a2-highgpu-1g": {
        "guestCpus": 12, "memoryMb": 87040,
        "accelerators": [{"guestAcceleratorType": "nvidia-tesla-a100", "guestAcceleratorCount": 1}],
    },
}  # fmt: skip
# An answer instead of the machine: an error of the call, or one of the operation that it started.
Trouble = Callable[[str, Body], GceError | OperationError | None]


@dataclass
class Instance:
    """A machine, with the body that it was made from."""

    id: str
    project: str
    zone: str
    body: Body
    created_at: float
    runs_at: float
    delete_at: float = float("inf")
    is_stopping: bool = False
    is_preempted: bool = False  # it has its notice
    stopped_because: str = ""
    console: str = ""

    @property
    def name(self) -> str:
        return str(self.body["name"])

    @property
    def link(self) -> str:
        return f"{API}/projects/{self.project}/zones/{self.zone}/instances/{self.name}"

    def status(self, now: float) -> str:
        if self.is_stopping:
            return "STOPPING"
        if self.stopped_because:
            return "TERMINATED"
        return "RUNNING" if now >= self.runs_at else "PROVISIONING"

    def shown(self, now: float) -> Body:
        return {
            **self.body,
            "id": self.id,
            "selfLink": self.link,
            "zone": f"{API}/projects/{self.project}/zones/{self.zone}",
            "status": self.status(now),
            "statusMessage": self.stopped_because,
            "creationTimestamp": _timestamp(self.created_at),
        }


@dataclass
class Operation:
    """A change that takes time. It is of a zone or of a region."""

    name: str
    kind: str
    project: str
    place: str  # zones/us-central1-a
    target_link: str
    target_id: str
    started_at: float
    done_at: float
    error: OperationError | None = None
    group: str = ""
    locations: Mapping[str, int] = field(default_factory=dict)  # of a bulk insert

    def shown(self, now: float) -> Body:
        is_done = now >= self.done_at
        body: Body = {
            "name": self.name,
            "id": self.name.rpartition("-")[2],
            "operationType": self.kind,
            "targetLink": self.target_link,
            "targetId": self.target_id or "0",
            "status": "DONE" if is_done else "RUNNING",
            "progress": 100 if is_done else 0,
            "insertTime": _timestamp(self.started_at),
            "zone" if self.place.startswith("zones") else "region": f"{API}/projects/{self.project}/{self.place}",
        }  # fmt: skip
        if self.group:
            body["operationGroupId"] = self.group
        if self.locations:
            statuses = {
                f"zones/{zone}": {"targetVmCount": n, "createdVmCount": n if is_done else 0}
                for zone, n in self.locations.items()
            }
            body["instancesBulkInsertOperationMetadata"] = {"perLocationStatus": statuses}
        if is_done and self.error:
            body |= self.error.shown()
        return body


class FakeGce:
    """The API of one project or more. Tests set its faults and look at its machines."""

    def __init__(self, now: Callable[[], float] = lambda: 0.0) -> None:
        self.now = now
        self.operation_s = 1.0  # from a call until its operation is done
        self.notice_s = 30.0  # from the notice of a preemption until the machine is gone
        self.most_per_page = 500
        self.machine_types = dict(MACHINE_TYPES)
        self.instances: list[Instance] = []
        self.operations: list[Operation] = []
        self.trouble: Trouble = lambda zone, body: None
        self.silent = False  # connections are cut before anything happens
        self.accepts_flexibility = True
        self.answers_to_lose = 0  # of inserts, which happen all the same
        self.policies: dict[tuple[str, str, str], Body] = {}  # by project, region and name
        self.most_in_policy = 1500
        self.policy_trouble: GceError | None = None  # the answer to the creation of a policy
        self.unreachable_zones: set[str] = set()
        self.skus: list[Body] = []  # of the price list
        self.calls: list[str] = []  # METHOD path
        self.lock = threading.Lock()
        self._ids = itertools.count(7_000_000_001)
        self._by_request_id: dict[str, Operation] = {}

    def insert(self, project: str, zone: str, body: Body, request_id: str) -> Operation:
        """Start a machine in a zone."""
        self._known(zone)
        earlier = self._by_request_id.get(request_id)
        if earlier:
            return earlier
        check_instance(body, project, zone, self.machine_types)
        if self._find(project, zone, body["name"]):
            raise GceError(409, "alreadyExists", f"The resource '{body['name']}' already exists")
        trouble = self.trouble(zone, body) or self._policy_trouble(project, zone, body)
        if isinstance(trouble, GceError):
            raise trouble
        return self._remember(request_id, self._start(project, zone, body, trouble))

    def insert_policy(self, project: str, region: str, body: Body) -> Operation:
        """Create a compact placement policy."""
        if self.policy_trouble is not None:
            raise self.policy_trouble
        key = project, region, body["name"]
        if key in self.policies:
            raise GceError(409, "alreadyExists", f"The resource '{body['name']}' already exists")
        self.policies[key] = body
        return self._operation("insert", project, f"regions/{region}", "", "")

    def delete_policy(self, project: str, region: str, name: str) -> Operation:
        if (project, region, name) not in self.policies:
            raise GceError(404, "notFound", f"The resource '{name}' was not found")
        if self._members(project, region, name):
            sentence = f"The resource_policy resource '{name}' is already being used by an instance"
            raise GceError(400, "resourceInUseByAnotherResource", sentence)
        del self.policies[project, region, name]
        return self._operation("delete", project, f"regions/{region}", "", "")

    def _members(self, project: str, region: str, name: str) -> list[Instance]:
        return [
            i
            for i in self.listed(project)
            if i.zone.startswith(region)
            and any(p.rpartition("/")[2] == name for p in i.body.get("resourcePolicies", ()))
        ]

    def _policy_trouble(
        self, project: str, zone: str, body: Body
    ) -> GceError | OperationError | None:
        """Return why a machine cannot be in its placement policy."""
        region = zone.rpartition("-")[0]
        machine_type = str(body["machineType"]).rpartition("/")[2]
        for policy in (str(p).rpartition("/")[2] for p in body.get("resourcePolicies", ())):
            if not policy.startswith("det-"):
                continue  # of the operator, outside of the test
            if (project, region, policy) not in self.policies:
                return GceError(404, "notFound", f"The resource '{policy}' was not found")
            if machine_type.startswith(("n1-", "e2-")):
                sentence = f"Placement policy is not applicable to machine type {machine_type}."
                return GceError(400, "invalid", sentence)
            if len(self._members(project, region, policy)) >= self.most_in_policy:
                return stockout(zone, machine_type)
        return None

    def bulk_insert(self, project: str, region: str, body: Body, request_id: str) -> Operation:
        """Start a machine in the first zone of a region, and of the best type, that has room."""
        earlier = self._by_request_id.get(request_id)
        if earlier:
            return earlier
        (name,) = body["perInstanceProperties"]
        if (body.get("count"), body.get("minCount")) != ("1", "1"):
            raise GceError(400, "invalid", "these tests start one machine at a time")
        if "instanceFlexibilityPolicy" in body and not self.accepts_flexibility:
            raise GceError(400, "invalid", "instanceFlexibilityPolicy does not take these types")
        parent = self._operation("bulkInsert", project, f"regions/{region}", "", "")
        parent.group = f"group-{parent.name}"
        parent.error = MIN_COUNT_NOT_REACHED
        for zone, machine in _candidates(region, name, body):
            check_instance(machine, project, zone, self.machine_types)
            trouble = self.trouble(zone, machine) or self._policy_trouble(project, zone, machine)
            if isinstance(trouble, GceError):
                self.operations.remove(parent)
                raise trouble
            self._start(project, zone, machine, trouble).group = parent.group
            if trouble is None:
                parent.error, parent.locations = None, {zone: 1}
                break
        return self._remember(request_id, parent)

    def delete(self, project: str, zone: str, name: str) -> Operation:
        instance = self.get(project, zone, name)
        operation = self._operation(
            "delete", project, f"zones/{zone}", instance.link, instance.id
        )  # fmt: skip
        instance.is_stopping = True
        instance.delete_at = min(instance.delete_at, operation.done_at)
        return operation

    def get(self, project: str, zone: str, name: str) -> Instance:
        self._known(zone)
        instance = self._find(project, zone, name)
        if instance is None:
            path = f"projects/{project}/zones/{zone}/instances/{name}"
            raise GceError(404, "notFound", f"The resource '{path}' was not found")
        return instance

    def listed(self, project: str) -> list[Instance]:
        """Return the existing machines, including those of failed operations until these end."""
        now = self.now()
        self.instances = [i for i in self.instances if now < i.delete_at]
        return [i for i in self.instances if i.project == project]

    def operation(self, project: str, place: str, name: str) -> Operation:
        for operation in self.operations:
            if (operation.project, operation.place, operation.name) == (project, place, name):
                return operation
        raise GceError(404, "notFound", f"The resource '{place}/operations/{name}' was not found")

    def forget_request_ids(self) -> None:
        """Know no repeated call any more, as after an hour or two."""
        self._by_request_id.clear()

    def preempt(self, name: str) -> None:
        """Take a machine back, as Google does with spot capacity."""
        for instance in [i for i in self.instances if i.name == name]:
            self._operation(
                "compute.instances.preempted", instance.project, f"zones/{instance.zone}",
                instance.link, instance.id,
            )  # fmt: skip
            self.instances.remove(instance)

    def simulate_maintenance(self, project: str, zone: str, name: str) -> Operation:
        """Preempt a spot machine with its notice, as the event does. A live migration is not played."""
        instance = self.get(project, zone, name)
        assert instance.body["scheduling"]["provisioningModel"] == "SPOT"
        instance.is_preempted = True
        instance.delete_at = min(instance.delete_at, self.now() + self.notice_s)
        return self._operation(
            "simulateMaintenanceEvent", project, f"zones/{zone}", instance.link, instance.id
        )

    def add(self, project: str, zone: str, name: str, **body: Any) -> Instance:
        """Add a machine that the tested code did not start."""
        link = f"{API}/projects/{project}/zones/{zone}/machineTypes/e2-standard-4"
        now = self.now()
        fields = {"name": name, "machineType": link, **body}
        instance = Instance(str(next(self._ids)), project, zone, fields, now, now)
        self.instances.append(instance)
        return instance

    def _start(
        self, project: str, zone: str, body: Body, trouble: OperationError | None
    ) -> Operation:
        now = self.now()
        instance = Instance(
            str(next(self._ids)), project, zone, body, now, now + self.operation_s
        )  # fmt: skip
        operation = self._operation(
            "insert", project, f"zones/{zone}", instance.link, instance.id
        )  # fmt: skip
        operation.error = trouble
        if trouble:
            instance.delete_at = operation.done_at
        self.instances.append(instance)
        return operation

    def _operation(
        self, kind: str, project: str, place: str, target_link: str, target_id: str
    ) -> Operation:
        now = self.now()
        operation = Operation(
            f"operation-{next(self._ids)}", kind, project, place, target_link, target_id,
            now, now + self.operation_s,
        )  # fmt: skip
        self.operations.append(operation)
        return operation

    def _remember(self, request_id: str, operation: Operation) -> Operation:
        if request_id:
            self._by_request_id[request_id] = operation
        return operation

    def _find(self, project: str, zone: str, name: str) -> Instance | None:
        matching = (i for i in self.listed(project) if (i.zone, i.name) == (zone, name))
        return next(matching, None)

    def _known(self, zone: str) -> None:
        if zone not in ZONES:
            raise GceError(
                400, "invalid", f"Invalid value for field 'zone': '{zone}'. Unknown zone."
            )


def _candidates(region: str, name: str, body: Body) -> Iterator[tuple[str, Body]]:
    """Return the places and machines that a bulk insert may choose from, the best first."""
    properties = body["instanceProperties"]
    selections = body.get("instanceFlexibilityPolicy", {}).get("instanceSelections", {})
    ranked = sorted(selections.values(), key=lambda s: int(s.get("rank", 0)))
    types = [t for s in ranked for t in s["machineTypes"]] or [properties["machineType"]]
    for machine_type, zone in itertools.product(types, ZONES):
        if re.fullmatch(rf"{region}-[a-z]", zone):
            link = f"zones/{zone}/machineTypes/{machine_type}"
            yield zone, {**properties, "name": name, "machineType": link}


def _timestamp(at: float) -> str:
    return datetime.fromtimestamp(at, timezone.utc).isoformat(timespec="milliseconds")
