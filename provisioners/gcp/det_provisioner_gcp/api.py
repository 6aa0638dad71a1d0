"""Calls to the Compute Engine API through Google's client library, with translated types and errors."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from det_controlplane.ports.compute import CloudMachine, CloudState, Unreachable

from det_provisioner_gcp import naming
from det_provisioner_gcp.refusals import GceFault

TIMEOUT_S = 20.0
_PAGE = 500
_COMPACT = {"collocation": "COLLOCATED"}
_OWNER = "gang of the Determined cluster "  # the description of a policy, which has no labels
# Statuses after which the call may or may not have taken effect.
_UNCERTAIN = (500, 502, 504)
_STATES: Mapping[str, CloudState] = {
    "PENDING": "pending",
    "PROVISIONING": "pending",
    "STAGING": "pending",
    "RUNNING": "running",
    "REPAIRING": "running",
    "PENDING_STOP": "stopping",
    "STOPPING": "stopping",
    "SUSPENDING": "stopping",
    "DEPROVISIONING": "stopping",
    "STOPPED": "stopped",
    "SUSPENDED": "stopped",
    "TERMINATED": "stopped",
}


class Refused(Exception):
    """The API answered a call with an error."""

    def __init__(self, faults: Sequence[GceFault]) -> None:
        super().__init__("; ".join(f.message for f in faults))
        self.faults = tuple(faults)
        self.http_status = faults[0].http_status


@dataclass(frozen=True, slots=True)
class Operation:
    """A change in a zone or region, with the errors that it ended with."""

    name: str
    kind: str
    zone: str  # empty for an operation of a region
    region: str
    started: str
    is_done: bool
    faults: tuple[GceFault, ...]
    group: str = ""  # the id of a bulk insert and of its inserts


@dataclass(frozen=True, slots=True)
class FoundMachineType:
    """A machine type in one of its zones."""

    name: str
    zone: str
    vcpus: int
    memory_mib: int
    accelerator: str
    accelerators: int
    local_disks: int


class GceApi:
    """The calls of the API, one method for each. They raise Refused, or Unreachable if the outcome is unknown."""

    def __init__(self, endpoint: str = "", credentials: Any = None) -> None:
        self._endpoint = endpoint
        self._credentials = credentials

    def insert(
        self, project: str, zone: str, body: Mapping[str, Any], request_id: str
    ) -> Operation:
        with _translate_errors(f"starting a machine in {zone}"):
            request = self._sdk.InsertInstanceRequest(
                project=project, zone=zone, request_id=request_id,
                instance_resource=_convert_message(self._sdk.Instance, body),
            )  # fmt: skip
            return _operation(self._instances.insert_unary(request, timeout=TIMEOUT_S))

    def bulk_insert(
        self, project: str, region: str, body: Mapping[str, Any], request_id: str
    ) -> Operation:
        with _translate_errors(f"starting a machine in {region}"):
            request = self._sdk.BulkInsertRegionInstanceRequest(
                project=project, region=region, request_id=request_id,
                bulk_insert_instance_resource_resource=_convert_message(
                    self._sdk.BulkInsertInstanceResource, body
                ),
            )  # fmt: skip
            client = self._client("RegionInstancesClient")
            return _operation(client.bulk_insert_unary(request, timeout=TIMEOUT_S))

    def insert_policy(self, project: str, region: str, name: str, cluster_id: str) -> Operation:
        """Create a compact placement policy."""
        with _translate_errors(f"creating a placement policy in {region}"):
            policy = {
                "name": name,
                "description": _OWNER + cluster_id,
                "groupPlacementPolicy": _COMPACT,
            }
            request = self._sdk.InsertResourcePolicyRequest(
                project=project, region=region,
                resource_policy_resource=_convert_message(self._sdk.ResourcePolicy, policy),
            )  # fmt: skip
            client = self._client("ResourcePoliciesClient")
            return _operation(client.insert_unary(request, timeout=TIMEOUT_S))

    def policies(self, project: str, region: str, cluster_id: str) -> Sequence[str]:
        """Return the names of the placement policies that the cluster created in a region."""
        with _translate_errors(f"listing the placement policies of {region}"):
            request = self._sdk.ListResourcePoliciesRequest(
                project=project, region=region, max_results=_PAGE,
                filter=f'description="{_OWNER}{cluster_id}"',
            )  # fmt: skip
            client = self._client("ResourcePoliciesClient")
            return [p.name for p in client.list(request, timeout=TIMEOUT_S, retry=None)]

    def delete_policy(self, project: str, region: str, name: str) -> None:
        """Request the deletion of a placement policy. Ignore policies that do not exist."""
        with _translate_errors(f"deleting the placement policy {name}"):
            request = {"project": project, "region": region, "resource_policy": name}
            client = self._client("ResourcePoliciesClient")
            try:
                client.delete_unary(request, timeout=TIMEOUT_S)
            except self._not_found:
                return

    def operation(self, project: str, operation: Operation) -> Operation:
        """Return the current state of an operation."""
        with _translate_errors(f"asking for the operation {operation.name}"):
            if operation.zone:
                client = self._client("ZoneOperationsClient")
                place = {"zone": operation.zone}
            else:
                client = self._client("RegionOperationsClient")
                place = {"region": operation.region}
            request = {"project": project, "operation": operation.name, **place}
            return _operation(client.get(request, timeout=TIMEOUT_S, retry=None))

    def operations(self, project: str, name: str) -> Sequence[Operation]:
        """Return the operations on the machine with this name, oldest first."""
        with _translate_errors(f"listing operations on {name}"):
            request = self._sdk.AggregatedListGlobalOperationsRequest(
                project=project, max_results=_PAGE, filter=f'targetLink eq ".*/instances/{name}"',
            )  # fmt: skip
            client = self._client("GlobalOperationsClient")
            pages = client.aggregated_list(request, timeout=TIMEOUT_S, retry=None)
            operations = [_operation(o) for _, listed in pages for o in listed.operations]
        return sorted(operations, key=lambda o: o.started)

    def machine(self, project: str, zone: str, name: str) -> CloudMachine | None:
        with _translate_errors(f"asking for the machine {name}"):
            request = {"project": project, "zone": zone, "instance": name}
            try:
                instance = self._instances.get(request, timeout=TIMEOUT_S, retry=None)
            except self._not_found:
                return None
            return _machine(project, instance)

    def machines(self, project: str, condition: str) -> Sequence[CloudMachine]:
        """Return the machines of all zones that match a filter. Raise Unreachable if a zone cannot be listed."""
        with _translate_errors("listing machines"):
            request = self._sdk.AggregatedListInstancesRequest(
                project=project, max_results=_PAGE, filter=condition
            )
            machines = []
            pages = self._instances.aggregated_list(request, timeout=TIMEOUT_S, retry=None)
            for place, listed in pages:
                if listed.warning.code == "UNREACHABLE":
                    raise Unreachable(f"Google Cloud cannot list the machines of {place} now")
                machines += [_machine(project, i) for i in listed.instances]
            return machines

    def delete(self, project: str, zone: str, name: str) -> None:
        """Request the deletion of a machine without waiting for its end. Ignore machines that do not exist."""
        with _translate_errors(f"deleting the machine {name}"):
            request = {"project": project, "zone": zone, "instance": name}
            try:
                self._instances.delete_unary(request, timeout=TIMEOUT_S)
            except self._not_found:
                return

    def serial_output(self, project: str, zone: str, name: str) -> str:
        with _translate_errors(f"reading the console of {name}"):
            request = {"project": project, "zone": zone, "instance": name, "port": 1}
            try:
                output = self._instances.get_serial_port_output(
                    request, timeout=TIMEOUT_S, retry=None
                )
            except self._not_found:
                return ""
            return str(output.contents)

    def machine_types(self, project: str, names: Sequence[str]) -> Sequence[FoundMachineType]:
        """Return machine types by name, once for each of their zones."""
        with _translate_errors("listing machine types"):
            return [
                _machine_type(zone, machine_type)
                for zone, listed in self._by_zone("MachineTypes", project, names)
                for machine_type in listed.machine_types
            ]

    def accelerator_types(self, project: str, names: Sequence[str]) -> Sequence[tuple[str, str]]:
        """Return pairs of an accelerator's name and one of its zones."""
        with _translate_errors("listing accelerator types"):
            return [
                (accelerator.name, zone)
                for zone, listed in self._by_zone("AcceleratorTypes", project, names)
                for accelerator in listed.accelerator_types
            ]

    def _by_zone(self, kind: str, project: str, names: Sequence[str]) -> Iterator[tuple[str, Any]]:
        """Yield the zones and the resources of a kind with these names."""
        request = getattr(self._sdk, f"AggregatedList{kind}Request")(
            project=project, max_results=_PAGE, filter=f'name eq "{"|".join(names)}"'
        )
        client = self._client(f"{kind}Client")
        for place, listed in client.aggregated_list(request, timeout=TIMEOUT_S, retry=None):
            yield place.rpartition("/")[2], listed

    @cached_property
    def _sdk(self) -> Any:
        """Import the library at the first call, because it needs 1.5 s and 150 MB."""
        from google.cloud import compute_v1

        return compute_v1

    @cached_property
    def _not_found(self) -> Any:
        from google.api_core.exceptions import NotFound

        return NotFound

    @cached_property
    def _instances(self) -> Any:
        return self._client("InstancesClient")

    @cached_property
    def _clients(self) -> dict[str, Any]:
        return {}

    def _client(self, kind: str) -> Any:
        """Return a client. The library's own operation clients ignore `api_endpoint`, so they are not used."""
        if kind not in self._clients:
            options = {"api_endpoint": self._endpoint} if self._endpoint else None
            client = getattr(self._sdk, kind)
            self._clients[kind] = client(credentials=self._credentials, client_options=options)
        return self._clients[kind]


@contextmanager
def _translate_errors(action: str) -> Iterator[None]:
    import requests
    from google.api_core import exceptions as api
    from google.auth import exceptions as auth
    from google.protobuf.json_format import ParseError

    try:
        yield
    except api.GoogleAPICallError as e:
        status = int(e.code or 0)
        if status in _UNCERTAIN:
            raise Unreachable(f"Google Cloud failed at {action}: {e}") from e
        raise Refused(_call_faults(e, status)) from e
    except auth.GoogleAuthError as e:
        if _is_passing(e):
            raise Unreachable(f"Google Cloud did not answer at {action}: {e}") from e
        raise Refused([GceFault("NoCredentials", str(e), 401)]) from e
    except (api.GoogleAPIError, requests.RequestException, ParseError) as e:
        raise Unreachable(f"Google Cloud did not answer at {action}: {e}") from e


def _is_passing(error: Any) -> bool:
    """Return whether authentication failed because of the network, rather than rejected or missing credentials."""
    from google.auth.exceptions import TransportError

    causes = (error, error.__cause__)
    return error.retryable or any(isinstance(cause, TransportError) for cause in causes)


def _convert_message(message: Any, body: Mapping[str, Any]) -> Any:
    """Convert a description to the library's message. The library rejects unknown fields."""
    from google.protobuf.json_format import ParseError

    try:
        return message.from_json(json.dumps(body))
    except ParseError as e:
        raise Refused([GceFault("", str(e), 400)]) from e


def _call_faults(error: Any, status: int) -> Sequence[GceFault]:
    faults = [
        GceFault(str(e.get("reason", "")), str(e.get("message", "")), status)
        for e in error.errors
        if isinstance(e, Mapping)
    ]
    return faults or [GceFault("", str(error.message), status)]


def _operation(operation: Any) -> Operation:
    zone = str(operation.zone).rpartition("/")[2]
    region = str(operation.region).rpartition("/")[2]
    return Operation(
        name=operation.name,
        kind=operation.operation_type,
        zone=zone,
        region=region,
        started=operation.insert_time,
        is_done=operation.status.name == "DONE",
        faults=tuple(
            _operation_fault(e, operation.http_error_status_code) for e in operation.error.errors
        ),
        group=operation.operation_group_id,
    )


def _operation_fault(error: Any, status: int) -> GceFault:
    details: dict[str, str] = {}
    limit = None
    for detail in error.error_details:
        details |= dict(detail.error_info.metadatas) | dict(detail.quota_info.dimensions)
        if detail.quota_info.limit_name:
            limit = detail.quota_info.limit
            details["limitName"] = detail.quota_info.limit_name
    return GceFault(error.code, error.message, status, details, limit)


def _machine(project: str, instance: Any) -> CloudMachine:
    zone = str(instance.zone).rpartition("/")[2]
    metadata = {item.key: item.value for item in instance.metadata.items}
    labels = dict(instance.labels)
    state = _STATES.get(instance.status, "pending")
    is_spot = instance.scheduling.provisioning_model == "SPOT" or instance.scheduling.preemptible
    return CloudMachine(
        provider="gcp",
        region=naming.region_of(zone),
        zone=zone,
        cloud_id=naming.cloud_id(project, instance.name),
        state=state,
        machine_type=str(instance.machine_type).rpartition("/")[2],
        capacity="spot" if is_spot else "on-demand",
        machine_id=naming.machine_id(labels.get(naming.MACHINE_LABEL, "")),
        pool=metadata.get(naming.POOL_METADATA) or labels.get(naming.POOL_LABEL, ""),
        ended_because=instance.status_message if state == "stopped" else "",
        group=next((str(p).rpartition("/")[2] for p in instance.resource_policies), ""),
    )


def _machine_type(zone: str, machine_type: Any) -> FoundMachineType:
    accelerator = machine_type.accelerators[0] if machine_type.accelerators else None
    return FoundMachineType(
        name=machine_type.name,
        zone=zone,
        vcpus=machine_type.guest_cpus,
        memory_mib=machine_type.memory_mb,
        accelerator=accelerator.guest_accelerator_type if accelerator else "",
        accelerators=accelerator.guest_accelerator_count if accelerator else 0,
        local_disks=machine_type.bundled_local_ssds.partition_count,
    )
