"""Machines of a cloud, their types and prices. Calls do not wait until a machine runs and return refusals as values."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal, Protocol
from uuid import UUID

from det_controlplane.core.provision.gang import Gang
from det_controlplane.core.provision.model import RefusalKind
from det_controlplane.core.provision.offers import Offer, Scope
from det_controlplane.core.provision.prices import TypeZones, WantedType

CloudState = Literal["pending", "running", "stopping", "stopped", "gone"]


@dataclass(frozen=True, slots=True)
class CloudMachine:
    """A machine in the listing of its cloud. Its tag or name contains `machine_id`."""

    provider: str
    region: str
    zone: str
    cloud_id: str
    state: CloudState
    machine_type: str = ""
    capacity: str = ""
    machine_id: UUID | None = None
    pool: str = ""
    ended_because: str = ""  # the cloud's reason, if the machine does not run any more
    taken_back: bool = False  # the cloud ended it because it needed the capacity
    group: str = ""  # the placement group or compact placement policy that it is in


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """A machine to launch from one of several offers, best first. They share provider, region and capacity type."""

    cluster_id: str
    pool: str
    machine_id: UUID
    attempt: int
    offers: tuple[Offer, ...]
    settings: Mapping[str, Any]  # the pool's section for the provider
    user_data: str
    gang: Gang | None = None  # the gang that needs the machine
    # The options of the agent in `user_data`, for clouds that start the agent without a script.
    agent_options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def token(self) -> str:
        """Return the idempotency token. A repeated request with the same token rents no second machine."""
        return f"{self.machine_id}-{self.attempt}"


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why some offers gave no machine. `hint` lists zones with capacity, according to the cloud.

    An invalid offer is `passing` if the pool's settings may not be the cause. It is then tried again."""

    kind: RefusalKind
    scope: Scope
    sentence: str
    hint: tuple[str, ...] = ()
    passing: bool = False


@dataclass(frozen=True, slots=True)
class LaunchOutcome:
    """The launched machine, if any, and all refusals before it."""

    machine: CloudMachine | None
    refusals: tuple[Refusal, ...] = ()
    outside_group: str = ""  # why a machine of a gang is in no placement group

    def refusals_of(self, offers: Sequence[Offer]) -> tuple[Refusal, ...]:
        """Return the refusals. Without a machine, an offer for any zone counts as refused if one of its zones was."""
        if self.machine is not None:
            return self.refusals
        zoneless = [offer for offer in offers if not offer.zone]
        uncovered = [o for o in zoneless if not any(r.scope.covers(o) for r in self.refusals)]
        pairs = ((offer, _in_a_zone(offer, self.refusals)) for offer in uncovered)
        zone_refusals = [replace(r, scope=Scope.of(offer)) for offer, r in pairs if r is not None]
        return (*self.refusals, *zone_refusals)


def _in_a_zone(offer: Offer, refusals: Sequence[Refusal]) -> Refusal | None:
    return next((r for r in refusals if r.scope._replace(zone="").covers(offer)), None)


@dataclass(frozen=True, slots=True)
class Place:
    """A region that may contain machines of the cluster, the settings for access, and the known machines."""

    region: str
    settings: Mapping[str, Any]
    cloud_ids: tuple[str, ...] = ()


class Unreachable(Exception):
    """The cloud could not be reached or did not answer. The state is unknown, and the call can be repeated later."""


class Compute(Protocol):
    provider: str

    def launch(self, request: LaunchRequest) -> LaunchOutcome:
        """Rent the machine, or return the machine of an earlier call with the same token. Raises Unreachable."""
        ...

    def terminate(self, machines: Sequence[CloudMachine]) -> Sequence[Refusal]:
        """Order the termination of machines. Machines that are already gone are not an error. Raises Unreachable."""
        ...

    def owned(self, cluster_id: str, place: Place) -> Sequence[CloudMachine]:
        """List all machines of the cluster in a place. Raises Unreachable."""
        ...

    def console(self, machine: CloudMachine, place: Place) -> str:
        """Return the last lines of a machine's console, or '' if there are none."""
        ...

    def delete_groups(self, cluster_id: str, place: Place, in_use: Collection[str]) -> bool:
        """Delete the placement groups that the cluster created in a place and that are not in use.

        Return False if some could not be deleted yet. Raises Unreachable."""
        ...


@dataclass(frozen=True, slots=True)
class Price:
    """A price of the scope's machine type, or of machine type and GPUs. It is valid from `since`."""

    scope: Scope  # without a zone: all zones of the region
    usd_hour: Decimal
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class MarketAnswer:
    """The prices of one region, and the zones of each type by `WantedType.name`.

    `problem` describes the parts that the cloud did not return.
    """

    prices: tuple[Price, ...] = ()
    types: Mapping[str, TypeZones] = field(default_factory=dict)
    problem: str = ""


class Market(Protocol):
    provider: str

    def read(self, place: Place, wanted: Sequence[WantedType]) -> MarketAnswer:
        """Return the zones and prices of the wanted types in a region. Raises Unreachable."""
        ...
