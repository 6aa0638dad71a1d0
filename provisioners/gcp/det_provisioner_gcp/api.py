"""Calls to the Compute Engine API by Google's client library, with its types and errors translated."""

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
# Answers after which it is not known whether the call had its effect.
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
    """A change of a zone or of a region, and the errors that it ended with."""

    name: str
    kind: str
    zone: str  # empty: of a region
    region: str
    started: str
    is_done: bool
    faults: tuple[GceFault, ...]
    group: str = ""  # of a bulk insert, and of the inserts that it made


@dataclass(frozen=True, slots=True)
class FoundMachineType:
    """A machine type in a zone that has it."""

    name: str
    zone: str
    vcpus: int
    memory_mib: int
    accelerator: str
    accelerators: int
    local_disks: int


class GceApi:
    """The calls of the API, a method each. They raise Refused, or Unreachable when the outcome is not known."""

    def __init__(self, endpoint: str = "", credentials: Any = None) -> None:
        self._endpoint = endpoint
        self._credentials = credentials

    def insert(
        self, project: str, zone: str, body: Mapping[str, Any], request_id: str
    ) -> Operation:
        with _translated(f"starting a machine in {zone}"):
            request = self._sdk.InsertInstanceRequest(
                project=project, zone=zone, request_id=request_id,
                instance_resource=_typed(self._sdk.Instance, body),
            )  # fmt: skip
            return _operation(self._instances.insert_unary(request, timeout=TIMEOUT_S))

    def bulk_insert(
        self, project: str, region: str, body: Mapping[str, Any], request_id: str
    ) -> Operation:
        with _translated(f"starting a machine in {region}"):
            request = self._sdk.BulkInsertRegionInstanceRequest(
                project=project, region=region, request_id=request_id,
                bulk_insert_instance_resource_resource=_typed(
                    self._sdk.BulkInsertInstanceResource, body
                ),
            )  # fmt: skip
            client = self._client("RegionInstancesClient")
            return _operation(client.bulk_insert_unary(request, timeout=TIMEOUT_S))

    def operation(self, project: str, operation: Operation) -> Operation:
        """Return an operation as it is now."""
        with _translated(f"asking for the operation {operation.name}"):
            if operation.zone:
                client = self._client("ZoneOperationsClient")
                place = {"zone": operation.zone}
            else:
                client = self._client("RegionOperationsClient")
                place = {"region": operation.region}
            request = {"project": project, "operation": operation.name, **place}
            return _operation(client.get(request, timeout=TIMEOUT_S, retry=None))

    def operations(self, project: str, name: str) -> Sequence[Operation]:
        """Return the operations on the machine of a name, the oldest first."""
        with _translated(f"listing operations on {name}"):
            request = self._sdk.AggregatedListGlobalOperationsRequest(
                project=project, max_results=_PAGE, filter=f'targetLink eq ".*/instances/{name}"',
            )  # fmt: skip
            client = self._client("GlobalOperationsClient")
            pages = client.aggregated_list(request, timeout=TIMEOUT_S, retry=None)
            found = [_operation(o) for _, listed in pages for o in listed.operations]
        return sorted(found, key=lambda o: o.started)

    def machine(self, project: str, zone: str, name: str) -> CloudMachine | None:
        with _translated(f"asking for the machine {name}"):
            request = {"project": project, "zone": zone, "instance": name}
            try:
                found = self._instances.get(request, timeout=TIMEOUT_S, retry=None)
            except self._not_found:
                return None
            return _machine(project, found)

    def machines(self, project: str, wanted: str) -> Sequence[CloudMachine]:
        """Return the machines of all zones that a filter finds, and nothing if a zone is silent."""
        with _translated("listing machines"):
            request = self._sdk.AggregatedListInstancesRequest(
                project=project, max_results=_PAGE, filter=wanted
            )
            found = []
            pages = self._instances.aggregated_list(request, timeout=TIMEOUT_S, retry=None)
            for place, listed in pages:
                if listed.warning.code == "UNREACHABLE":
                    raise Unreachable(f"Google Cloud cannot list the machines of {place} now")
                found += [_machine(project, i) for i in listed.instances]
            return found

    def delete(self, project: str, zone: str, name: str) -> None:
        """Ask for the end of a machine, and return before it ends; one that is gone is no error."""
        with _translated(f"deleting the machine {name}"):
            request = {"project": project, "zone": zone, "instance": name}
            try:
                self._instances.delete_unary(request, timeout=TIMEOUT_S)
            except self._not_found:
                return

    def serial_output(self, project: str, zone: str, name: str) -> str:
        with _translated(f"reading the console of {name}"):
            request = {"project": project, "zone": zone, "instance": name, "port": 1}
            try:
                found = self._instances.get_serial_port_output(
                    request, timeout=TIMEOUT_S, retry=None
                )
            except self._not_found:
                return ""
            return str(found.contents)

    def machine_types(self, project: str, names: Sequence[str]) -> Sequence[FoundMachineType]:
        """Return machine types by name, once for each zone that has them."""
        with _translated("listing machine types"):
            return [
                _machine_type(zone, found)
                for zone, listed in self._by_zone("MachineTypes", project, names)
                for found in listed.machine_types
            ]

    def accelerator_types(self, project: str, names: Sequence[str]) -> Sequence[tuple[str, str]]:
        """Return the names of accelerators, each with a zone that has it."""
        with _translated("listing accelerator types"):
            return [
                (found.name, zone)
                for zone, listed in self._by_zone("AcceleratorTypes", project, names)
                for found in listed.accelerator_types
            ]

    def _by_zone(self, kind: str, project: str, names: Sequence[str]) -> Iterator[tuple[str, Any]]:
        """Yield the resources of a kind with these names, zone by zone."""
        request = getattr(self._sdk, f"AggregatedList{kind}Request")(
            project=project, max_results=_PAGE, filter=f'name eq "{"|".join(names)}"'
        )
        client = self._client(f"{kind}Client")
        for place, listed in client.aggregated_list(request, timeout=TIMEOUT_S, retry=None):
            yield place.rpartition("/")[2], listed

    @cached_property
    def _sdk(self) -> Any:
        """Import the library when a call is made: it costs 1.5 s and 150 MB."""
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
        """Return a client of its own for operations too: those that the library makes ignore `api_endpoint`."""
        if kind not in self._clients:
            options = {"api_endpoint": self._endpoint} if self._endpoint else None
            client = getattr(self._sdk, kind)
            self._clients[kind] = client(credentials=self._credentials, client_options=options)
        return self._clients[kind]


@contextmanager
def _translated(doing: str) -> Iterator[None]:
    import requests
    from google.api_core import exceptions as api
    from google.auth import exceptions as auth
    from google.protobuf.json_format import ParseError

    try:
        yield
    except api.GoogleAPICallError as e:
        status = int(e.code or 0)
        if status in _UNCERTAIN:
            raise Unreachable(f"Google Cloud failed at {doing}: {e}") from e
        raise Refused(_call_faults(e, status)) from e
    except auth.GoogleAuthError as e:
        if _is_passing(e):
            raise Unreachable(f"Google Cloud did not answer at {doing}: {e}") from e
        raise Refused([GceFault("NoCredentials", str(e), 401)]) from e
    except (api.GoogleAPIError, requests.RequestException, ParseError) as e:
        raise Unreachable(f"Google Cloud did not answer at {doing}: {e}") from e


def _is_passing(error: Any) -> bool:
    """Tell a sign-in that was not answered from one that was refused, or of which there is nothing to sign in with."""
    from google.auth.exceptions import TransportError

    causes = (error, error.__cause__)
    return error.retryable or any(isinstance(cause, TransportError) for cause in causes)


def _typed(message: Any, body: Mapping[str, Any]) -> Any:
    """Return a description as the library's message, which refuses fields that it does not know."""
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


def _operation(found: Any) -> Operation:
    zone = str(found.zone).rpartition("/")[2]
    region = str(found.region).rpartition("/")[2]
    return Operation(
        name=found.name,
        kind=found.operation_type,
        zone=zone,
        region=region,
        started=found.insert_time,
        is_done=found.status.name == "DONE",
        faults=tuple(_operation_fault(e, found.http_error_status_code) for e in found.error.errors),
        group=found.operation_group_id,
    )


def _operation_fault(error: Any, status: int) -> GceFault:
    told: dict[str, str] = {}
    limit = None
    for detail in error.error_details:
        told |= dict(detail.error_info.metadatas) | dict(detail.quota_info.dimensions)
        if detail.quota_info.limit_name:
            limit = detail.quota_info.limit
            told["limitName"] = detail.quota_info.limit_name
    return GceFault(error.code, error.message, status, told, limit)


def _machine(project: str, found: Any) -> CloudMachine:
    zone = str(found.zone).rpartition("/")[2]
    metadata = {item.key: item.value for item in found.metadata.items}
    labels = dict(found.labels)
    state = _STATES.get(found.status, "pending")
    is_spot = found.scheduling.provisioning_model == "SPOT" or found.scheduling.preemptible
    return CloudMachine(
        provider="gcp",
        region=naming.region_of(zone),
        zone=zone,
        cloud_id=naming.cloud_id(project, found.name),
        state=state,
        machine_type=str(found.machine_type).rpartition("/")[2],
        capacity="spot" if is_spot else "on-demand",
        machine_id=naming.machine_id(labels.get(naming.MACHINE_LABEL, "")),
        pool=metadata.get(naming.POOL_METADATA) or labels.get(naming.POOL_LABEL, ""),
        ended_because=found.status_message if state == "stopped" else "",
    )


def _machine_type(zone: str, found: Any) -> FoundMachineType:
    own = found.accelerators[0] if found.accelerators else None
    return FoundMachineType(
        name=found.name,
        zone=zone,
        vcpus=found.guest_cpus,
        memory_mib=found.memory_mb,
        accelerator=own.guest_accelerator_type if own else "",
        accelerators=own.guest_accelerator_count if own else 0,
        local_disks=found.bundled_local_ssds.partition_count,
    )
