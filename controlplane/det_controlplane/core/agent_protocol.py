"""The messages between agents and the control plane (docs/reference/agent-protocol.md), which both import.

A message ignores fields it does not know, because the other side may be newer, and gives absent ones their default.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal, TypeVar

ContainerState = Literal["assigned", "pulling", "starting", "running", "terminated"]
Failure = Literal["container_failed", "image_pull", "agent_error", "aborted"]
SlotType = Literal["cuda", "rocm", "cpu"]
# Alone: nothing was changed; sent by itself, to its own route, the report gets an answer of its own.
ReportOutcome = Literal["stored", "alone"]
SignalKind = Literal["spot_interruption", "rebalance", "maintenance", "shutdown"]
# The cloud takes the machine back, or is likely to: what is rented next had better be another offer.
RECLAIMS: tuple[SignalKind, ...] = ("spot_interruption", "rebalance")

# What a container runs first; a command of its own stands after "--".
ENTRY = ("python3", "-m", "determined.exec.entry")

M = TypeVar("M", bound="Message")


@dataclass(frozen=True)
class Message:
    """A part of the protocol that is written as a JSON object."""

    def as_json(self) -> dict[str, Any]:
        """Return the object to send, without fields that are None."""
        return asdict(self, dict_factory=_without_none)

    @classmethod
    def from_json(cls: type[M], body: Mapping[str, Any]) -> M:
        """Read a received object. Raises TypeError when a field is missing that has no default."""
        known: dict[str, Any] = {}
        for f in fields(cls):
            if body.get(f.name) is not None:
                known[f.name] = _read(body[f.name], f.metadata.get("of"))
        return cls(**known)


def _read(value: Any, of: type[Message] | None) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple(_read(item, of) for item in value)
    return of.from_json(value) if of is not None else value


def _without_none(items: list[tuple[str, Any]]) -> dict[str, Any]:
    return {name: value for name, value in items if value is not None}


def _list_of(kind: type[Message]) -> Any:
    return field(default=(), metadata={"of": kind})


@dataclass(frozen=True)
class Slot(Message):
    id: int
    type: SlotType
    uuid: str
    brand: str


@dataclass(frozen=True)
class Mount(Message):
    host_path: str
    container_path: str
    read_only: bool = False
    propagation: str = "rprivate"


@dataclass(frozen=True)
class Device(Message):
    host_path: str
    container_path: str
    mode: str = "rwm"


@dataclass(frozen=True)
class ContainerFile(Message):
    path: str
    content_b64: str
    mode: int = 0o644


@dataclass(frozen=True)
class TaskUser(Message):
    uid: int = 0
    gid: int = 0
    user: str = "root"
    group: str = "root"


@dataclass(frozen=True)
class ContainerSpec(Message):
    """The specification by which an agent runs a container, except what only the agent knows."""

    container_id: str
    allocation_id: str
    task_id: str
    epoch: int
    command: tuple[str, ...]
    session_token: str = field(repr=False)
    name: str = ""
    task_type: str = ""
    image: str = ""
    force_pull: bool = False
    registry_auth: Mapping[str, str] = field(default_factory=dict, repr=False)
    work_dir: str = "/run/determined/workdir"
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    env_of_agent: tuple[str, ...] = ()
    files: tuple[ContainerFile, ...] = _list_of(ContainerFile)
    mounts: tuple[Mount, ...] = _list_of(Mount)
    devices: tuple[Device, ...] = _list_of(Device)
    shm_size_bytes: int = 0
    cap_add: tuple[str, ...] = ()
    cap_drop: tuple[str, ...] = ()
    network: str = "bridge"
    ports: tuple[int, ...] = ()  # open to the machine's network
    local_ports: tuple[int, ...] = ()  # open to the machine itself, for the relay
    log_patterns: tuple[str, ...] = ()
    slot_ids: tuple[int, ...] = ()
    user: TaskUser = field(default=TaskUser(), metadata={"of": TaskUser})


@dataclass(frozen=True)
class ContainerReport(Message):
    """Report the state of a container, in every poll until the control plane has recorded its end."""

    id: str
    epoch: int
    state: ContainerState
    exit_code: int | None = None
    failure: Failure | None = None
    message: str | None = None
    address: str | None = None
    host_ports: Mapping[str, int] | None = None
    runtime_id: str | None = None

    def moved(self, state: ContainerState, **changes: Any) -> "ContainerReport":
        return replace(self, state=state, **changes)


@dataclass(frozen=True)
class MachineSignal(Message):
    """A notice that the machine of an agent goes away."""

    kind: SignalKind
    deadline: str | None = None  # when, as RFC 3339 has it


@dataclass(frozen=True)
class JoinRequest(Message):
    agent_id: str
    agent_key: str = field(repr=False)
    incarnation: str
    pool: str = "default"
    version: str = ""
    product_version: str = ""
    hostname: str = ""
    addresses: tuple[str, ...] = ()
    runtime: Literal["docker", "process"] = "process"
    slots: tuple[Slot, ...] = _list_of(Slot)
    out_of_service: str = ""
    # All containers of the agent, so that runs continue that were declared lost while it was silent.
    containers: tuple[ContainerReport, ...] = _list_of(ContainerReport)
    proof: Mapping[str, str] = field(default_factory=dict, repr=False)


def join_nonce(cluster_id: str, agent_id: str, agent_key: str, incarnation: str) -> str:
    """Return the nonce of a machine's proof, which binds it to one agent process and one cluster."""
    joining = json.dumps([cluster_id, agent_id, agent_key, incarnation])
    return hashlib.sha256(joining.encode()).hexdigest()


def gce_audience(nonce: str) -> str:
    """Return for whom a Google machine has its identity token made: for one join, with a part of its own behind."""
    return f"determined-join/{nonce}"


# The request that a machine on EC2 signs and the control plane sends: it proves the machine's role.
STS_BODY = "Action=GetCallerIdentity&Version=2011-06-15"
STS_NONCE_HEADER = "X-Determined-Nonce"


def sts_host(region: str) -> str:
    """Return the only host that the proof of a machine in a region is good for."""
    domain = "api.amazonwebservices.com.cn" if region.startswith("cn-") else "api.aws"
    return f"sts.{region}.{domain}"


def sts_headers(region: str, nonce: str) -> dict[str, str]:
    """Return the headers that are signed, beside the date and the session's token."""
    return {
        "Host": sts_host(region),
        "Content-Type": "application/x-www-form-urlencoded; charset=utf-8",
        STS_NONCE_HEADER: nonce,
    }


@dataclass(frozen=True)
class JoinAnswer(Message):
    agent_token: str = field(repr=False)
    cluster_id: str = ""
    master_id: str = ""
    next_poll_s: float = 1.0
    may_wait_s: float = 0.0


@dataclass(frozen=True)
class PollRequest(Message):
    incarnation: str
    seq: int
    containers: tuple[ContainerReport, ...] = _list_of(ContainerReport)
    signals: tuple[MachineSignal, ...] = _list_of(MachineSignal)
    out_of_service: str = ""
    seen: str = ""
    wait_s: float = 0.0
    gone: bool = False  # the agent ends, and nothing of it runs any more
    unsent: bool = False  # log lines wait on the agent's disk


@dataclass(frozen=True)
class Directive(Message):
    """A container that the agent should have, and the order to run, preempt or kill it."""

    id: str
    epoch: int
    allocation_id: str = ""
    desired: Literal["running", "killed"] = "running"
    preempt: bool = False
    spec: ContainerSpec | None = field(default=None, metadata={"of": ContainerSpec})


@dataclass(frozen=True)
class PollAnswer(Message):
    containers: tuple[Directive, ...] = _list_of(Directive)
    forget: tuple[str, ...] = ()
    version: str = ""
    next_poll_s: float = 1.0
    logs_within_s: float = 1.0  # how long lines may wait for more lines
    draining: bool = False
    # Be connected to this one, a URL or a path of the control plane; empty: to none.
    relay: str = ""


@dataclass(frozen=True)
class MetricsReport(Message):
    """A report of metrics as a container sent it, with the token of its allocation."""

    trial_id: int
    token: str = field(repr=False)
    key: str  # the Idempotency-Key that it would have alone
    report: str  # the body, which is not looked into on the way


@dataclass(frozen=True)
class ReportsRequest(Message):
    reports: tuple[MetricsReport, ...] = _list_of(MetricsReport)


@dataclass(frozen=True)
class ReportsAnswer(Message):
    """Tell what became of each report, in their order."""

    outcomes: tuple[ReportOutcome, ...] = ()
