"""Machines of a cloud. No call blocks until a machine runs, and none raises for what a cloud answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol
from uuid import UUID

from det_controlplane.core.provision.model import RefusalKind
from det_controlplane.core.provision.offers import Offer, Scope

CloudState = Literal["pending", "running", "stopping", "stopped", "gone"]


@dataclass(frozen=True, slots=True)
class CloudMachine:
    """A machine as its cloud lists it. `machine_id` is read from its tag or name."""

    provider: str
    region: str
    zone: str
    cloud_id: str
    state: CloudState
    machine_type: str = ""
    capacity: str = ""
    machine_id: UUID | None = None
    pool: str = ""
    ended_because: str = ""  # as the cloud says it, of a machine that does not run any more
    taken_back: bool = False  # its cloud ended it for want of capacity: no fault of the machine


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """A machine to launch, from one of some offers of one provider, region and capacity, the best first."""

    cluster_id: str
    pool: str
    machine_id: UUID
    attempt: int
    offers: tuple[Offer, ...]
    settings: Mapping[str, Any]  # the pool's section for the provider
    user_data: str

    @property
    def token(self) -> str:
        """Return the idempotency token: repeating a request with it rents no second machine."""
        return f"{self.machine_id}-{self.attempt}"


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why some offers gave no machine. `hint` names zones that the cloud says have capacity.

    An invalid offer is `passing` if the pool's settings are not known to cause the error: it is tried again."""

    kind: RefusalKind
    scope: Scope
    sentence: str
    hint: tuple[str, ...] = ()
    passing: bool = False


@dataclass(frozen=True, slots=True)
class LaunchOutcome:
    """The machine, if there is one, and every refusal on the way to it."""

    machine: CloudMachine | None
    refusals: tuple[Refusal, ...] = ()

    def refusals_of(self, offers: Sequence[Offer]) -> tuple[Refusal, ...]:
        """Return the refusals; where no machine came, also of the offers of any zone that zones refused one by one."""
        if self.machine is not None:
            return self.refusals
        anywhere = [offer for offer in offers if not offer.zone]
        left = [o for o in anywhere if not any(r.scope.covers(o) for r in self.refusals)]
        pairs = ((offer, _in_a_zone(offer, self.refusals)) for offer in left)
        whole = [replace(r, scope=Scope.of(offer)) for offer, r in pairs if r is not None]
        return (*self.refusals, *whole)


def _in_a_zone(offer: Offer, refusals: Sequence[Refusal]) -> Refusal | None:
    return next((r for r in refusals if r.scope._replace(zone="").covers(offer)), None)


@dataclass(frozen=True, slots=True)
class Place:
    """A region in which the cluster may have machines, with the settings to reach it, and those known to be there."""

    region: str
    settings: Mapping[str, Any]
    cloud_ids: tuple[str, ...] = ()


class Unreachable(Exception):
    """The cloud could not be asked or did not answer: nothing is known, try again later."""


class Compute(Protocol):
    provider: str

    def launch(self, request: LaunchRequest) -> LaunchOutcome:
        """Rent the machine, or find it when an earlier call with this token rented it. Raises Unreachable."""
        ...

    def terminate(self, machines: Sequence[CloudMachine]) -> Sequence[Refusal]:
        """Ask for the end of machines; those already gone are no error. Raises Unreachable."""
        ...

    def owned(self, cluster_id: str, place: Place) -> Sequence[CloudMachine]:
        """List every machine of the cluster in a place, to the last page. Raises Unreachable."""
        ...

    def console(self, machine: CloudMachine, place: Place) -> str:
        """Return the last lines of a machine's console, empty where there are none."""
        ...
