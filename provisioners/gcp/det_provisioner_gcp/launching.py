"""Launch a machine: return the outcome of earlier calls with its token, or try the offers one after another."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from det_controlplane.core.provision.model import RefusalKind
from det_controlplane.core.provision.offers import Offer
from det_controlplane.ports.compute import (
    CloudMachine,
    CloudState,
    LaunchOutcome,
    LaunchRequest,
    Refusal,
)

from det_provisioner_gcp import instances, naming, refusals
from det_provisioner_gcp.api import GceApi, Operation, Refused
from det_provisioner_gcp.settings import AUTOMATIC_POLICY, GcpSettings

LONGEST_S = 60.0  # offers that were not tried by then are left for the next launch
_POLL_S = 0.5
_CONFLICT = 409
_INSERT = "insert"
# Operations that end a machine, with Google Cloud's names.
_PREEMPTED = "compute.instances.preempted"
_ENDS = {
    _PREEMPTED: "spot capacity was taken back",
    "compute.instances.hostError": "its host failed",
    "compute.instances.guestTerminate": "it shut itself down",
    "stop": "it was stopped",
    "delete": "it was deleted",
}


@dataclass(frozen=True, slots=True)
class Call:
    """An insert for one offer of a zone, or for several of a region, in a compact placement policy if one is given."""

    offers: tuple[Offer, ...]
    policy: str = ""


@dataclass(slots=True)
class Launching:
    """A launch request in progress, with its refusals so far."""

    api: GceApi
    request: LaunchRequest
    settings: GcpSettings
    settle_s: float
    now: Callable[[], float]
    sleep: Callable[[float], None]
    outside_group: str = ""  # why a machine of a gang is in no policy
    _has_policy: bool = False  # the gang's policy was created
    _refusals: list[Refusal] = field(default_factory=list)

    @property
    def name(self) -> str:
        return naming.machine_name(self.request)

    def outcome(self) -> LaunchOutcome:
        try:
            operations = self.api.operations(self.settings.project, self.name)
            inserts = [self._wait_briefly(o) for o in operations if o.kind == _INSERT]
            machine = self._earlier_machine(inserts, operations) if inserts else self._new()
        except Refused as e:
            self._refuse(e.faults, self.request.offers[0])
            machine = None
        reason = self.outside_group if machine is not None and not machine.group else ""
        return LaunchOutcome(machine, tuple(self._refusals), reason)

    def _earlier_machine(
        self, inserts: Sequence[Operation], operations: Sequence[Operation]
    ) -> CloudMachine | None:
        """Return the machine that an earlier call started, even if it has ended. Otherwise record the refusals."""
        regional_offers = [o for o in self.request.offers if not o.zone]
        failed = [o for o in inserts if o.faults]
        tried: Counter[str] = Counter()
        for operation in failed:
            if operation.group and regional_offers:
                parts = [o for o in failed if o.group == operation.group]
                self._refuse_all(tuple(f for part in parts for f in part.faults), regional_offers)
            else:
                offers = self._offers_in(operation.zone)
                self._refuse(operation.faults, offers[min(tried[operation.zone], len(offers) - 1)])
                tried[operation.zone] += 1
        started = next((o for o in inserts if not o.faults), None)
        return self._started_earlier(started, operations) if started else None

    def _new(self) -> CloudMachine | None:
        calls = list(self._calls())
        deadline = self.now() + LONGEST_S
        while calls and (self.now() < deadline or not self._refusals):
            call = calls.pop(0)
            offers = call.offers
            if all(any(r.scope.covers(o) for r in self._refusals) for o in offers):
                continue
            try:
                if call.policy:
                    self._ensure_policy(offers[0].region, call.policy)
                operation = self._wait_briefly(self._insert(call))
            except Refused as e:
                if e.http_status == _CONFLICT and offers[0].zone:
                    return self._existing_machine(offers[0])
                if len(offers) > 1 and refusals.kind_of(e.faults[0]) is RefusalKind.INVALID:
                    # Some types cannot be requested together with others.
                    calls[:0] = [replace(call, offers=(offer,)) for offer in offers]
                else:
                    self._refuse_call(e.faults, call, calls)
                continue
            if not operation.faults:
                return self._accepted(operation, call)
            self._refuse_call(self._causes(operation), call, calls)
        self._delete_policy()
        return None

    def _delete_policy(self) -> None:
        """Delete the policy that no machine of this request uses. It stays if other machines of the gang use it."""
        if self._has_policy:
            with suppress(Refused):
                region, name = self.request.offers[0].region, naming.policy_name(self.request)
                self.api.delete_policy(self.settings.project, region, name)

    def _ensure_policy(self, region: str, policy: str) -> None:
        """Create the gang's policy, unless it exists, and wait briefly until it can be used."""
        self._has_policy = True
        try:
            cluster_id = self.request.cluster_id
            created = self._wait_briefly(
                self.api.insert_policy(self.settings.project, region, policy, cluster_id)
            )
        except Refused as e:
            if e.http_status != _CONFLICT:
                raise
            return
        if created.faults:
            raise Refused(created.faults)

    def _refuse_call(
        self, faults: Sequence[refusals.GceFault], call: Call, rest: Sequence[Call]
    ) -> None:
        """Record the refusal of a call. A refusal within a policy does not count if a later call does without it."""
        if call.policy and any(not c.policy and c.offers == call.offers for c in rest):
            if not self.outside_group:
                self.outside_group = refusals.reason_of(faults)
            return
        self._refuse_all(faults, call.offers)

    def _existing_machine(self, offer: Offer) -> CloudMachine:
        """Return the machine with the same name. An earlier call started it, but its operation is not listed yet."""
        machine = self.api.machine(self.settings.project, offer.zone, self.name)
        return machine or self._machine(offer, offer.zone, "pending")

    def _calls(self) -> Iterator[Call]:
        """Yield the calls: for a gang, calls with a compact placement policy in its zone come first."""
        gang, offers = self.request.gang, self.request.offers
        zone = gang.zone_among(offers) if gang else ""
        near = [replace(o, zone=zone) for o in offers if o.zone in ("", zone)] if zone else offers
        if gang and self._takes_policies(near):
            policy = naming.policy_name(self.request)
            yield from (Call(group, policy) for group in self._grouped(near))
            if gang.is_strict:
                return
        if zone:
            yield from map(Call, self._grouped(near))
        if not (zone and gang and gang.is_strict):
            yield from map(Call, self._grouped([o for o in offers if not zone or o.zone != zone]))

    def _takes_policies(self, offers: Sequence[Offer]) -> bool:
        gang = self.request.gang
        automatic = self.settings.placement_policy == AUTOMATIC_POLICY
        return (
            automatic
            and gang is not None
            and not gang.avoids_group
            and all(instances.takes_policies(offer) for offer in offers)
        )

    def _grouped(self, offers: Sequence[Offer]) -> Iterator[tuple[Offer, ...]]:
        """Yield groups of offers, each for one call: a single offer of a zone, or several of a region."""
        group: list[Offer] = []
        for offer in offers:
            fits = group and not (group[0].zone or offer.zone)
            if fits and instances.may_share_a_call(group[0], offer, self.settings):
                group.append(offer)
                continue
            if group:
                yield tuple(group)
            group = [offer]
        if group:
            yield tuple(group)

    def _insert(self, call: Call) -> Operation:
        offer, project, offers = call.offers[0], self.settings.project, call.offers
        types = [o.machine_type for o in offers] + ([call.policy] if call.policy else [])
        request_id = naming.request_id(self.request, offer.region, offer.zone, *types)
        if offer.zone:
            body = instances.zonal_instance(self.request, offer, self.settings, call.policy)
            return self.api.insert(project, offer.zone, body, request_id)
        body = instances.regional_instance(self.request, offers, self.settings, call.policy)
        return self.api.bulk_insert(project, offer.region, body, request_id)

    def _offers_in(self, zone: str) -> Sequence[Offer]:
        """Return the offers of the inserts into a zone, in order."""
        offers = self.request.offers
        return [o for o in offers if o.zone == zone] or [replace(offers[0], zone=zone)]

    def _causes(self, operation: Operation) -> Sequence[refusals.GceFault]:
        """Return the causes of a failed operation. A bulk insert may report them only in its own inserts."""
        if not refusals.names_no_cause(operation.faults):
            return operation.faults
        parts = self.api.operations(self.settings.project, self.name)
        causes = [f for o in parts if o.group and o.group == operation.group for f in o.faults]
        return causes or operation.faults

    def _wait_briefly(self, operation: Operation) -> Operation:
        """Wait a short time for an operation to fail or to complete."""
        deadline = self.now() + self.settle_s
        while not operation.is_done and self.now() < deadline:
            self.sleep(_POLL_S)
            operation = self.api.operation(self.settings.project, operation)
        return operation

    def _accepted(self, operation: Operation, call: Call) -> CloudMachine:
        offer = call.offers[0]
        if offer.zone:
            state: CloudState = "running" if operation.is_done else "pending"
            return replace(self._machine(offer, offer.zone, state), group=call.policy)
        machines = self.api.machines(self.settings.project, f'name="{self.name}"')
        machine = machines[0] if machines else self._machine(offer, "", "pending")
        return replace(machine, group=call.policy)

    def _started_earlier(
        self, operation: Operation, operations: Sequence[Operation]
    ) -> CloudMachine:
        machine = self.api.machine(self.settings.project, operation.zone, self.name)
        if machine:
            return machine
        offers = self.request.offers
        offer = next((o for o in offers if o.zone == operation.zone), offers[0])
        if not operation.is_done:
            return self._machine(offer, operation.zone, "pending")
        ends = [o.kind for o in operations if o.kind in _ENDS]
        ended_machine = self._machine(offer, operation.zone, "gone")
        reason = _ENDS[ends[-1]] if ends else ""
        return replace(ended_machine, ended_because=reason, taken_back=_PREEMPTED in ends)

    def _machine(self, offer: Offer, zone: str, state: CloudState) -> CloudMachine:
        return CloudMachine(
            provider="gcp",
            region=offer.region,
            zone=zone,
            cloud_id=naming.cloud_id(self.settings.project, self.name),
            state=state,
            machine_type=offer.machine_type,
            capacity=offer.capacity.value,
            machine_id=self.request.machine_id,
            pool=self.request.pool,
        )

    def _refuse_all(self, faults: Sequence[refusals.GceFault], offers: Sequence[Offer]) -> None:
        for offer in offers:
            self._refuse(faults, offer)

    def _refuse(self, faults: Sequence[refusals.GceFault], offer: Offer) -> None:
        refusal = refusals.refusal(faults, offer)
        if refusal not in self._refusals:
            self._refusals.append(refusal)
