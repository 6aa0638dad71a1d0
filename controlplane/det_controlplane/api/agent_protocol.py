"""The agent protocol (docs/reference/agent-protocol.md)."""

import re
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from det_controlplane.api.errors import BadRequest
from det_controlplane.api.http import (
    REPORT_BODY,
    Answer,
    Request,
    Wait,
    bearer_token,
    json_response,
)
from det_controlplane.api.router import Access, Unaudited, post
from det_controlplane.core.agent_protocol import RECLAIMS
from det_controlplane.core.datasets.sources import LONGEST_SOURCE
from det_controlplane.core.lifecycle.allocation import ContainerState, Failure
from det_controlplane.services.agents import polling
from det_controlplane.services.agents.containers import Report
from det_controlplane.services.agents.polling import Joining, Poll, ReportedCache
from det_controlplane.services.context import Context
from det_controlplane.services.identity import authentication
from det_controlplane.services.identity.authentication import AGENT_PREFIX
from det_controlplane.services.machines.admission import MachineAge
from det_controlplane.services.tasks.resources import Sample

# A reason is a sentence, not a log.
MAX_REASON_CHARACTERS = 2000
# More than any machine has; a pool of them would only mislead the scheduler.
MAX_SLOTS, MAX_ADDRESSES = 1024, 256
# An agent reports the last used ones.
MAX_DATA_SETS = 64
MAX_SAMPLES = 1_000
_DEVICES = ("cpu", "cuda", "rocm")
_LINK_KIND = re.compile(r"[A-Z]{1,8}\d{0,3}")


@dataclass(frozen=True)
class Slot:
    id: int = 0
    type: str = ""
    uuid: str = ""
    brand: str = ""
    numa_node: int | None = None


@dataclass(frozen=True)
class SlotLink:
    a: int
    b: int
    kind: str


@dataclass(frozen=True)
class ContainerReport:
    id: str
    epoch: int = 0
    state: str = ""
    exit_code: int | None = None
    failure: str | None = None
    message: str | None = None
    address: str | None = None
    host_ports: dict[str, Any] | None = None
    runtime_id: str | None = None
    data_s: float | None = None

    def report(self) -> Report:
        if self.state.upper() not in ContainerState.__members__:
            raise BadRequest(f"containers: state {self.state!r} is unknown")
        if self.failure is not None and self.failure not in {f.value for f in Failure}:
            raise BadRequest(f"containers: failure {self.failure!r} is unknown")
        _uuid(self.id, "containers: id")
        return Report(**{**self.__dict__, "state": ContainerState(self.state.upper())})


@dataclass(frozen=True)
class JoinBody:
    agent_id: str
    agent_key: str
    incarnation: str
    pool: str = ""
    version: str = ""
    product_version: str = ""
    hostname: str = ""
    runtime: str = ""
    addresses: list[str] = field(default_factory=list, metadata={"most": MAX_ADDRESSES})
    slots: list[Slot] = field(default_factory=list)
    links: list[SlotLink] = field(default_factory=list)
    proof: dict[str, Any] = field(default_factory=dict)
    out_of_service: str = ""
    uptime_s: float | None = None
    image_age_s: float | None = None
    containers: list[ContainerReport] = field(default_factory=list)

    def joining(self) -> Joining:
        _check_slots(self.slots)
        return Joining(
            agent_id=self.agent_id,
            agent_key=self.agent_key,
            incarnation=_uuid(self.incarnation, "incarnation"),
            pool=self.pool or "default",
            version=self.version,
            product_version=self.product_version,
            hostname=self.hostname,
            runtime=self.runtime,
            addresses=self.addresses,
            slots=[dict(slot.__dict__) for slot in self.slots],
            links=_links(self.links, {slot.id for slot in self.slots}),
            proof={str(name): str(value) for name, value in self.proof.items()},
            out_of_service=self.out_of_service[:MAX_REASON_CHARACTERS],
            reports=[container.report() for container in self.containers],
            age=MachineAge(_duration_s(self.uptime_s), _duration_s(self.image_age_s)),
        )


@dataclass(frozen=True)
class Signal:
    kind: str = ""
    deadline: str = ""


@dataclass(frozen=True)
class HeldDataSet:
    source: str = ""
    bytes: int = 0
    total: int = 0
    in_use: bool = False


@dataclass(frozen=True)
class DataCache:
    size_bytes: int = 0
    used_bytes: int = 0
    sets: list[HeldDataSet] = field(default_factory=list, metadata={"most": MAX_DATA_SETS})

    def reported(self) -> ReportedCache:
        if min(self.size_bytes, self.used_bytes, *(s.bytes for s in self.sets), 0) < 0:
            raise BadRequest("data_cache: sizes must not be negative")
        sets = [s.__dict__ | {"source": s.source[:LONGEST_SOURCE]} for s in self.sets]
        return ReportedCache(self.size_bytes, self.used_bytes, sets)


@dataclass(frozen=True)
class GpuSample:
    slot: int = 0
    memory: float = 0.0
    memory_limit: float = 0.0
    util: float | None = None


@dataclass(frozen=True)
class ResourceSample:
    container_id: str = ""
    start: float = 0.0
    seconds: float = 0.0
    cpu: float | None = None
    cpu_limit: float | None = None
    memory: float | None = None
    memory_limit: float | None = None
    disk_read: float | None = None
    disk_write: float | None = None
    net_received: float | None = None
    net_sent: float | None = None
    gpus: list[GpuSample] = field(default_factory=list, metadata={"most": MAX_SLOTS})

    def sample(self) -> Sample:
        own = ("container_id", "start", "seconds", "gpus")
        return Sample(
            self.container_id,
            self.start,
            self.seconds,
            {n: v for n, v in self.__dict__.items() if n not in own and v is not None},
            [(g.slot, g.util, g.memory, g.memory_limit) for g in self.gpus],
        )


@dataclass(frozen=True)
class PollBody:
    incarnation: str = ""
    containers: list[ContainerReport] = field(default_factory=list)
    seq: int | None = None
    seen: str = ""
    signals: list[Signal] = field(default_factory=list)
    out_of_service: str = ""
    gone: bool = False
    unsent: bool = False
    wait_s: float = 0.0
    data_cache: DataCache | None = None
    replicas: list[str] = field(default_factory=list)
    resources: list[ResourceSample] = field(default_factory=list, metadata={"most": MAX_SAMPLES})

    def poll(self, token: str, arrived_at: datetime, *, again: bool) -> Poll:
        """Return the poll. If it is handled again after a wait, its samples are stored already."""
        _uuid(self.incarnation, "incarnation")
        return Poll(
            token=token,
            incarnation=self.incarnation,
            reports=[container.report() for container in self.containers],
            seq=self.seq,
            seen=self.seen,
            leaving=bool(self.signals),
            leaves_at=_earliest(signal.deadline for signal in self.signals),
            reclaimed=any(signal.kind in RECLAIMS for signal in self.signals),
            out_of_service=self.out_of_service[:MAX_REASON_CHARACTERS],
            gone=self.gone,
            unsent=self.unsent,
            data_cache=None if self.data_cache is None else self.data_cache.reported(),
            replicas=self.replicas,
            samples=[] if again else [sample.sample() for sample in self.resources],
            arrived_at=arrived_at,
        )


def join(ctx: Context, request: Request, body: JoinBody) -> Answer:
    joined = polling.join(ctx, body.joining())
    return json_response(
        {
            "agent_token": joined.agent_token,
            "cluster_id": ctx.cluster_id,
            "master_id": ctx.cluster_id,
            "lease_s": joined.lease_s,
            "next_poll_s": joined.next_poll_s,
            "may_wait_s": ctx.host.may_wait_s,
        }
    )


def _links(links: Sequence[SlotLink], slots: Collection[int]) -> list[tuple[int, int, str]]:
    for link in links:
        if link.a == link.b or not {link.a, link.b} <= set(slots):
            raise BadRequest(f"links: {link.a} and {link.b} are not two slots of this agent")
        if not _LINK_KIND.fullmatch(link.kind):
            raise BadRequest(f"links: kind must be a name like NV4, PIX or SYS, not {link.kind!r}")
    pairs = {(min(link.a, link.b), max(link.a, link.b)): link.kind for link in links}
    return [(a, b, kind) for (a, b), kind in sorted(pairs.items())]


def _duration_s(reported: float | None) -> float | None:
    """Return the age of a machine or its image, or None without a possible value: none is older than ten years."""
    return reported if reported is not None and 0 <= reported < 3.2e8 else None


def _check_slots(slots: Sequence[Slot]) -> None:
    ids = [slot.id for slot in slots]
    if len(ids) > MAX_SLOTS or any(not 0 <= id < MAX_SLOTS for id in ids):
        raise BadRequest(f"slots: at most {MAX_SLOTS}, with ids from 0 to {MAX_SLOTS - 1}")
    if len(set(ids)) < len(ids):
        raise BadRequest(f"slots: an id is given twice in {ids[:50]}")
    for slot in slots:
        if slot.type not in _DEVICES:
            types = ", ".join(_DEVICES)
            raise BadRequest(f"slots: type must be one of {types}, not {slot.type!r}")


def poll(ctx: Context, request: Request, body: PollBody) -> Answer:
    token = bearer_token(request)
    if not token.startswith(AGENT_PREFIX):
        authentication.agent_of(ctx, token)  # lists the agents of the relay
    again = "arrived_at" in request.kept
    arrived_at = request.kept.setdefault("arrived_at", ctx.now().isoformat())
    answer = polling.poll(ctx, body.poll(token, datetime.fromisoformat(arrived_at), again=again))
    wait_s = min(body.wait_s, ctx.host.may_wait_s, polling.LONGEST_HELD_S)
    if answer.news or request.final or wait_s <= 0:
        return json_response(answer.message.as_json())
    return Wait(f"agent:{answer.agent_id}", wait_s)


def _earliest(deadlines: Iterable[str]) -> datetime | None:
    """Return the earliest of these times. Agents of earlier releases send some in a form other than RFC 3339."""
    times = []
    for text in deadlines:
        with suppress(ValueError):
            time = datetime.fromisoformat(text.replace("Z", "+00:00"))
            times += [time] if time.tzinfo else []
    return min(times, default=None)


def _uuid(value: str, what: str) -> UUID:
    try:
        return UUID(value)
    except ValueError as e:
        raise BadRequest(f"{what} must be a UUID, not {value!r}") from e


ROUTES = (
    post(
        "/agents/v1/join",
        join,
        access=Access.PUBLIC,
        summary="Join the cluster",
        audit=Unaudited.REPORT,
    ),
    post(
        "/agents/v1/poll",
        poll,
        access=Access.AGENT_BY_HANDLER,
        summary="Report containers, get directives",
        largest=REPORT_BODY,
        audit=Unaudited.REPORT,
    ),
)
