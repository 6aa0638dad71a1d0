"""Launch a machine: find what earlier calls with its token came to or, at the first, try the offers in turn."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
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
from det_provisioner_gcp.settings import GcpSettings

LONGEST_S = 60.0  # offers that are not asked for by then are left for another launch
_POLL_S = 0.5
_CONFLICT = 409
_INSERT = "insert"
# What ends a machine, as Google Cloud names the operation.
_PREEMPTED = "compute.instances.preempted"
_ENDS = {
    _PREEMPTED: "spot capacity was taken back",
    "compute.instances.hostError": "its host failed",
    "compute.instances.guestTerminate": "it shut itself down",
    "stop": "it was stopped",
    "delete": "it was deleted",
}


@dataclass(slots=True)
class Launching:
    """A request on its way, with the refusals that it met."""

    api: GceApi
    request: LaunchRequest
    settings: GcpSettings
    settle_s: float
    now: Callable[[], float]
    sleep: Callable[[float], None]
    _refusals: list[Refusal] = field(default_factory=list)

    @property
    def name(self) -> str:
        return naming.machine_name(self.request)

    def outcome(self) -> LaunchOutcome:
        try:
            done = self.api.operations(self.settings.project, self.name)
            inserts = [self._settled(o) for o in done if o.kind == _INSERT]
            machine = self._of_earlier(inserts, done) if inserts else self._new()
        except Refused as e:
            self._refuse(e.faults, self.request.offers[0])
            machine = None
        return LaunchOutcome(machine, tuple(self._refusals))

    def _of_earlier(
        self, inserts: Sequence[Operation], done: Sequence[Operation]
    ) -> CloudMachine | None:
        """Return the machine that an earlier call started, though it may be gone, or tell why there is none."""
        anywhere = [o for o in self.request.offers if not o.zone]
        failed = [o for o in inserts if o.faults]
        tried: Counter[str] = Counter()
        for operation in failed:
            if operation.group and anywhere:
                parts = [o for o in failed if o.group == operation.group]
                self._refuse_all(tuple(f for part in parts for f in part.faults), anywhere)
            else:
                offers = self._offers_in(operation.zone)
                self._refuse(operation.faults, offers[min(tried[operation.zone], len(offers) - 1)])
                tried[operation.zone] += 1
        started = next((o for o in inserts if not o.faults), None)
        return self._started_earlier(started, done) if started else None

    def _new(self) -> CloudMachine | None:
        calls = list(self._calls())
        deadline = self.now() + LONGEST_S
        while calls and (self.now() < deadline or not self._refusals):
            offers = calls.pop(0)
            if all(any(r.scope.covers(o) for r in self._refusals) for o in offers):
                continue
            try:
                operation = self._settled(self._insert(offers))
            except Refused as e:
                if e.http_status == _CONFLICT and offers[0].zone:
                    return self._in_the_way(offers[0])
                if len(offers) > 1 and refusals.kind_of(e.faults[0]) is RefusalKind.INVALID:
                    # Not every type may be asked for together with others.
                    calls[:0] = [[offer] for offer in offers]
                else:
                    self._refuse_all(e.faults, offers)
                continue
            if not operation.faults:
                return self._accepted(operation, offers)
            self._refuse_all(self._causes(operation), offers)
        return None

    def _in_the_way(self, offer: Offer) -> CloudMachine:
        """Return the machine that has the name already: an earlier call's, whose operation is not listed."""
        found = self.api.machine(self.settings.project, offer.zone, self.name)
        return found or self._machine(offer, offer.zone, "pending")

    def _calls(self) -> Iterator[Sequence[Offer]]:
        """Yield the offers that one call asks for: one of a zone, or some of a region."""
        together: list[Offer] = []
        for offer in self.request.offers:
            fits = together and not (together[0].zone or offer.zone)
            if fits and instances.may_share_a_call(together[0], offer, self.settings):
                together.append(offer)
                continue
            if together:
                yield together
            together = [offer]
        if together:
            yield together

    def _insert(self, offers: Sequence[Offer]) -> Operation:
        offer, project = offers[0], self.settings.project
        types = [o.machine_type for o in offers]
        request_id = naming.request_id(self.request, offer.region, offer.zone, *types)
        if offer.zone:
            body = instances.zonal_instance(self.request, offer, self.settings)
            return self.api.insert(project, offer.zone, body, request_id)
        body = instances.regional_instance(self.request, offers, self.settings)
        return self.api.bulk_insert(project, offer.region, body, request_id)

    def _offers_in(self, zone: str) -> Sequence[Offer]:
        """Return the offers that inserts into a zone were for, in their order."""
        offers = self.request.offers
        return [o for o in offers if o.zone == zone] or [replace(offers[0], zone=zone)]

    def _causes(self, operation: Operation) -> Sequence[refusals.GceFault]:
        """Return why an operation failed; a bulk insert may tell it by the inserts that it made."""
        if not refusals.names_no_cause(operation.faults):
            return operation.faults
        parts = self.api.operations(self.settings.project, self.name)
        told = [f for o in parts if o.group and o.group == operation.group for f in o.faults]
        return told or operation.faults

    def _settled(self, operation: Operation) -> Operation:
        """Wait a little for an operation to fail or to end."""
        deadline = self.now() + self.settle_s
        while not operation.is_done and self.now() < deadline:
            self.sleep(_POLL_S)
            operation = self.api.operation(self.settings.project, operation)
        return operation

    def _accepted(self, operation: Operation, offers: Sequence[Offer]) -> CloudMachine:
        if offers[0].zone:
            state: CloudState = "running" if operation.is_done else "pending"
            return self._machine(offers[0], offers[0].zone, state)
        found = self.api.machines(self.settings.project, f'name="{self.name}"')
        return found[0] if found else self._machine(offers[0], "", "pending")

    def _started_earlier(self, operation: Operation, done: Sequence[Operation]) -> CloudMachine:
        found = self.api.machine(self.settings.project, operation.zone, self.name)
        if found:
            return found
        offers = self.request.offers
        offer = next((o for o in offers if o.zone == operation.zone), offers[0])
        if not operation.is_done:
            return self._machine(offer, operation.zone, "pending")
        ends = [o.kind for o in done if o.kind in _ENDS]
        gone = self._machine(offer, operation.zone, "gone")
        because = _ENDS[ends[-1]] if ends else ""
        return replace(gone, ended_because=because, taken_back=_PREEMPTED in ends)

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
