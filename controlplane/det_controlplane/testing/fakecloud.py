"""A cloud in memory. It keeps state and time, and fails as often as `faults` says.

    cloud = FakeCloud("aws", seed=7, faults=CloudFaults(lost_answer=0.1, stockout=0.3), now=clock)
    cloud.refuse(Scope("aws", machine_type="p5.48xlarge"), RefusalKind.QUOTA)
    cloud.launch(request)
    cloud.reclaim(machine_id, notice_s=120)

Machines boot, stop and vanish as `now` passes: nothing runs in the background. A gang's placement group is in one zone
and has room for `most_in_group` machines; types without support for groups are not simulated.
"""

import random
import threading
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Protocol, TypeVar

from det_controlplane.core.provision.gang import Gang
from det_controlplane.core.provision.model import RefusalKind
from det_controlplane.core.provision.offers import Capacity, Offer, Scope
from det_controlplane.ports.compute import (
    CloudMachine,
    CloudState,
    LaunchOutcome,
    LaunchRequest,
    Place,
    Refusal,
    Unreachable,
)
from det_controlplane.ports.identity import MachineIdentity, NotProven, Proof

STOCK_SPELL_S = 600.0  # how long a zone has, or lacks, a type
SHUTDOWN_S = 30.0
REMEMBERED_S = 3600.0  # how long a machine that ended is still listed
NEVER = float("inf")

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class CloudFaults:
    """The rates at which a cloud misbehaves: shares of calls, of machines or of spells."""

    lost_request: float = 0.0  # calls that never arrive
    lost_answer: float = 0.0  # calls with an effect and no answer
    delivered_twice: float = 0.0  # calls that arrive twice
    throttled: float = 0.0  # launches that are to be tried again
    stockout: float = 0.0  # spells in which a zone lacks a type
    listed_late: float = 0.0  # machines that a listing does not have at first
    slow_boot: float = 0.0
    dead_boot: float = 0.0  # running machines with agents that never start
    reclaims_per_hour: float = 0.0  # of spot machines
    reclaims_unannounced: float = 0.0  # of those, how many come without a notice


class SpotSpells(Protocol):
    """The times in which zones have spot machines of a type."""

    def state(self, offer: Offer, at: float) -> tuple[bool, float]:
        """Return whether the offer's zone has its type at a time, and until when that stays so."""


@dataclass(slots=True)
class RentedMachine:
    """A machine of the fake cloud, from its launch to the end of its bill."""

    cloud_id: str
    zone: str
    offer: Offer
    request: LaunchRequest
    launched_at: float
    boots_at: float  # runs, and starts its agent
    listed_from: float
    boots_dead: bool = False
    notice_at: float = NEVER  # the machine receives the reclaim notice
    ends_at: float = NEVER  # no longer runs, and costs no more
    shuts_down_at: float = NEVER
    stopped: bool = False
    ended_because: str = ""
    console: str = ""
    group: str = ""  # its placement group

    def state(self, now: float) -> CloudState:
        if now >= self.ends_at:
            return "gone"
        if now >= self.shuts_down_at:
            return "stopping"
        if self.stopped:
            return "stopped"
        return "running" if now >= self.boots_at else "pending"

    def runs_agent(self, now: float) -> bool:
        """Return whether an agent lives on the machine at a time."""
        return self.state(now) == "running" and not self.boots_dead

    def cost_usd(self, until: float) -> Decimal:
        seconds = max(min(until, self.ends_at) - self.launched_at, 0.0)
        return self.offer.price_usd_hour * Decimal(seconds) / 3600


@dataclass(slots=True)
class FakeCloud:
    """Implement `Compute` and record calls for tests."""

    provider: str = "aws"
    seed: int = 0
    faults: CloudFaults = CloudFaults()
    now: Callable[[], float] = lambda: 0.0
    most_machines: int | None = None  # the quota of each region
    most_in_group: int | None = None  # the machines for which a placement group has room
    most_in_zone: int | None = None  # the machines for which a zone has room
    groups: set[str] = field(default_factory=set)  # placement groups that exist, of all regions
    boot_s: float = 60.0
    spells: SpotSpells | None = (
        None  # instead of the faults `stockout` and `reclaims_per_hour` of spot machines
    )
    connected: bool = True
    ends_are_lost: int = 0  # orders to end machines that never arrive
    rented: list[RentedMachine] = field(default_factory=list)  # every machine that ever was
    _by_token: dict[str, RentedMachine] = field(default_factory=dict)
    _refused: list[Refusal] = field(default_factory=list)
    _answers_to_lose: int = 0
    _random: random.Random = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._random = random.Random(f"{self.seed}/{self.provider}")

    def launch(self, request: LaunchRequest) -> LaunchOutcome:
        return self._call(lambda: self._launch(request), may_lose=True)

    def terminate(self, machines: Sequence[CloudMachine]) -> Sequence[Refusal]:
        if self.ends_are_lost:
            self.ends_are_lost -= 1
            raise Unreachable(f"{self.provider} did not answer")
        return self._call(lambda: self._terminate([m.cloud_id for m in machines]))

    def owned(self, cluster_id: str, place: Place) -> Sequence[CloudMachine]:
        return self._call(lambda: self._owned(cluster_id, place.region))

    def console(self, machine: CloudMachine, place: Place) -> str:
        rented = self.find(machine.cloud_id)
        return rented.console if rented else ""

    def delete_groups(self, cluster_id: str, place: Place, in_use: Collection[str]) -> bool:
        return self._call(lambda: self._delete_groups(in_use))

    def _delete_groups(self, in_use: Collection[str]) -> bool:
        """Delete groups. A group with a machine stays, also if that machine is ending."""
        unused = self.groups - set(in_use)
        busy = {machine.group for machine in self.alive()}
        self.groups -= unused - busy
        return not unused & busy

    def refuse(
        self, scope: Scope, kind: RefusalKind, sentence: str = "", hint: tuple[str, ...] = ()
    ) -> None:
        """Refuse launches of the offers in a scope until `allow`, naming zones that have room."""
        message = sentence or f"the fake cloud was told to refuse with {kind.value}"
        self.refuse_with(Refusal(kind, scope, message, hint))

    def refuse_with(self, refusal: Refusal) -> None:
        """Refuse launches of the offers in the refusal's scope until `allow`."""
        self._refused.append(refusal)

    def allow(self) -> None:
        """Refuse calls only by faults and quotas."""
        self._refused.clear()

    def lose_next_answer(self) -> None:
        """Let the next launch have its effect and no answer."""
        self._answers_to_lose += 1

    def find(self, cloud_id: str) -> RentedMachine | None:
        return next((m for m in self.rented if m.cloud_id == cloud_id), None)

    def reclaim(self, cloud_id: str, notice_s: float = 0.0) -> None:
        """Take a machine back, at once or some time after a notice that its agent sees."""
        rented = self._existing(cloud_id)
        if notice_s:
            rented.notice_at = min(rented.notice_at, self.now())
        rented.ends_at = min(rented.ends_at, self.now() + notice_s)
        rented.ended_because = _RECLAIMED

    def stop(self, cloud_id: str) -> None:
        """Stop a machine without deleting it, as an operator might."""
        self._existing(cloud_id).stopped = True

    def print_on_console(self, cloud_id: str, text: str) -> None:
        self._existing(cloud_id).console += text

    def alive(self) -> list[RentedMachine]:
        """Return the machines that run, and cost money, now."""
        return [m for m in self.rented if self.now() < m.ends_at]

    def cost_usd(self) -> Decimal:
        """Return the cost of all machines until now."""
        return sum((m.cost_usd(self.now()) for m in self.rented), Decimal(0))

    def _call(self, act: Callable[[], Answer], may_lose: bool = False) -> Answer:
        with self._lock:
            return self._called(act, may_lose)

    def _called(self, act: Callable[[], Answer], may_lose: bool) -> Answer:
        if not self.connected or self._happens(self.faults.lost_request):
            raise Unreachable(f"{self.provider} did not answer")
        if self._happens(self.faults.delivered_twice):
            act()
        answer = act()
        lose = may_lose and self._answers_to_lose > 0
        if lose:
            self._answers_to_lose -= 1
        if lose or self._happens(self.faults.lost_answer):
            raise Unreachable(f"the answer of {self.provider} was lost")
        return answer

    def _happens(self, share: float) -> bool:
        return share > 0 and self._random.random() < share

    def _launch(self, request: LaunchRequest) -> LaunchOutcome:
        rented = self._by_token.get(request.token)
        if rented is not None:
            return LaunchOutcome(self._shown(rented))
        if self._happens(self.faults.throttled):
            region = Scope(self.provider, request.offers[0].region)
            return LaunchOutcome(None, (_refusal(RefusalKind.RETRYABLE, region),))
        refusals: list[Refusal] = []
        outside_group = ""
        for offer in request.offers:
            refusal = self._refusal(offer)
            if refusal is None and request.gang and not request.gang.avoids_group:
                group = self._group(request.gang, offer)
                if self._has_room(group):
                    machine = self._rent(request, offer, group)
                    return LaunchOutcome(self._shown(machine), tuple(refusals))
                outside_group = "there is not enough capacity in the group"
                if request.gang.is_strict:
                    refusal = _refusal(RefusalKind.NO_CAPACITY, Scope.of(offer))
            if refusal is None:
                machine = self._rent(request, offer)
                return LaunchOutcome(self._shown(machine), tuple(refusals), outside_group)
            refusals.append(refusal)
        return LaunchOutcome(None, tuple(refusals))

    def _group(self, gang: Gang, offer: Offer) -> str:
        """Return the placement group of a gang in a zone, which exists from now on."""
        group = f"group-{gang.id}-{offer.zone or offer.region + 'a'}"
        self.groups.add(group)
        return group

    def _has_room(self, group: str) -> bool:
        in_group = sum(machine.group == group for machine in self.alive())
        return self.most_in_group is None or in_group < self.most_in_group

    def _refusal(self, offer: Offer) -> Refusal | None:
        planned_refusal = next((r for r in self._refused if r.scope.covers(offer)), None)
        if planned_refusal is not None:
            return planned_refusal
        in_region = sum(m.offer.region == offer.region for m in self.alive())
        if self.most_machines is not None and in_region >= self.most_machines:
            scope = Scope(self.provider, offer.region, capacity=offer.capacity.value)
            return _refusal(RefusalKind.QUOTA, scope)
        in_zone = sum(m.zone == (offer.zone or f"{offer.region}a") for m in self.alive())
        is_full = self.most_in_zone is not None and in_zone >= self.most_in_zone
        if is_full or self._lacks(offer):
            refusal = _refusal(RefusalKind.NO_CAPACITY, Scope.of(offer))
            return replace(refusal, hint=self._zones_with_room(offer))
        return None

    def _lacks(self, offer: Offer) -> bool:
        """Draw the stock of each period by the requested offer, independent of the number of calls."""
        if self.spells is not None and offer.capacity is Capacity.SPOT:
            return not self.spells.state(offer, self.now())[0]
        spell = int(self.now() // STOCK_SPELL_S)
        drawn = random.Random(f"{self.seed}/{Scope.of(offer)}/{spell}").random()
        return drawn < self.faults.stockout

    def _zones_with_room(self, offer: Offer) -> tuple[str, ...]:
        """Return a neighbouring zone that has the type. Only Google Cloud reports one."""
        if not offer.zone or self.provider != "gcp":
            return ()
        zone = offer.zone[:-1] + ("b" if offer.zone[-1] == "a" else "a")
        return () if self._lacks(replace(offer, zone=zone)) else (zone,)

    def _rent(self, request: LaunchRequest, offer: Offer, group: str = "") -> RentedMachine:
        now, faults, draw = self.now(), self.faults, self._random
        slow = draw.uniform(5, 25) if self._happens(faults.slow_boot) else draw.uniform(0.8, 1.5)
        machine = RentedMachine(
            cloud_id=f"i-{uuid.UUID(int=draw.getrandbits(128)).hex[:17]}",
            zone=offer.zone or f"{offer.region}a",
            offer=offer,
            request=request,
            launched_at=now,
            boots_at=now + self.boot_s * slow,
            listed_from=now + (draw.uniform(1, 30) if self._happens(faults.listed_late) else 0.0),
            boots_dead=self._happens(faults.dead_boot),
            group=group,
        )
        if offer.capacity is Capacity.SPOT and (self.spells or faults.reclaims_per_hour > 0):
            if self.spells is not None:
                machine.ends_at = self.spells.state(offer, now)[1]
            else:
                machine.ends_at = now + 3600 * draw.expovariate(faults.reclaims_per_hour)
            announced = not self._happens(faults.reclaims_unannounced)
            machine.notice_at = max(now, machine.ends_at - 120) if announced else NEVER
            machine.ended_because = _RECLAIMED
        self.rented.append(machine)
        self._by_token[request.token] = machine
        return machine

    def _terminate(self, cloud_ids: Sequence[str]) -> Sequence[Refusal]:
        now = self.now()
        for machine in (m for m in self.rented if m.cloud_id in cloud_ids):
            if now < machine.shuts_down_at:
                machine.shuts_down_at = now
                if now + SHUTDOWN_S < machine.ends_at:
                    machine.ends_at = now + SHUTDOWN_S
                    machine.ended_because = "terminated by the cluster"
        return ()

    def _owned(self, cluster_id: str, region: str) -> Sequence[CloudMachine]:
        now = self.now()
        return [
            self._shown(m)
            for m in self.rented
            if m.request.cluster_id == cluster_id
            and m.offer.region == region
            and m.listed_from <= now < m.ends_at + REMEMBERED_S
        ]

    def _shown(self, machine: RentedMachine) -> CloudMachine:
        because = machine.ended_because if self.now() >= machine.ends_at else ""
        return CloudMachine(
            provider=self.provider,
            region=machine.offer.region,
            zone=machine.zone,
            cloud_id=machine.cloud_id,
            state=machine.state(self.now()),
            machine_type=machine.offer.machine_type,
            capacity=machine.offer.capacity.value,
            machine_id=machine.request.machine_id,
            pool=machine.request.pool,
            ended_because=because,
            taken_back=because == _RECLAIMED,
            group=machine.group,
        )

    def _existing(self, cloud_id: str) -> RentedMachine:
        rented = self.find(cloud_id)
        if rented is None:
            raise LookupError(f"the fake cloud never had {cloud_id}")
        return rented


_RECLAIMED = "spot capacity was taken back"
_SENTENCES = {
    RefusalKind.RETRYABLE: "too many requests at once: ask again in a few seconds",
    RefusalKind.QUOTA: "the quota of machines in the region is used up: request a higher one",
    RefusalKind.NO_CAPACITY: "there is not enough capacity at the moment",
}


def _refusal(kind: RefusalKind, scope: Scope) -> Refusal:
    return Refusal(kind, scope, _SENTENCES[kind])


KIND = "fake_cloud"
ACCOUNT = "fake-account"


def fake_proof(cloud_id: str, nonce: str) -> Mapping[str, str]:
    """Return the proof that the agent of a machine sends at its join."""
    return {"kind": KIND, "cloud_id": cloud_id, "nonce": nonce}


@dataclass(slots=True)
class FakeIdentityVerifier:
    """Implements `IdentityVerifier`: knows the machines that run in a fake cloud."""

    cloud: FakeCloud
    kind: str = KIND

    @property
    def provider(self) -> str:
        return self.cloud.provider

    def claimed(self, proof: Proof) -> str | None:
        return None

    def verify(self, proof: Proof) -> MachineIdentity:
        if not self.cloud.connected:
            raise Unreachable(f"{self.cloud.provider} did not answer")
        if proof.fields.get("nonce") != proof.nonce:
            raise NotProven("the proof is of another join")
        machine = self.cloud.find(proof.fields.get("cloud_id", ""))
        if machine is None or machine.state(self.cloud.now()) != "running":
            raise NotProven(f"no machine {proof.fields.get('cloud_id')!r} runs in the fake cloud")
        return MachineIdentity(
            self.cloud.provider, ACCOUNT, machine.offer.region, machine.cloud_id, proof.nonce
        )
