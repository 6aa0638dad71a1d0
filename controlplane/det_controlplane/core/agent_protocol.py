"""The messages between agents and the control plane (docs/reference/agent-protocol.md). Both sides import this module.

A message ignores fields that it does not know, because the other side may be newer. Missing fields get their default.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal, TypeVar

ContainerState = Literal["assigned", "pulling", "starting", "running", "terminated"]
Failure = Literal["container_failed", "image_pull", "agent_error", "aborted"]
SlotType = Literal["cuda", "rocm", "cpu"]
# An "alone" report had no effect. The agent sends it again to the route of single reports, which answers it.
ReportOutcome = Literal["stored", "alone"]
# cached: the task starts when all objects are there. stream: objects are loaded on access.
DataMode = Literal["cached", "stream"]
SignalKind = Literal["spot_interruption", "rebalance", "maintenance", "shutdown"]
# The cloud takes this machine away, or probably will. The next machine should come from another offer.
RECLAIMS: tuple[SignalKind, ...] = ("spot_interruption", "rebalance")

# The program that starts in each container. The user's command, if there is one, follows after "--".
ENTRY = ("python3", "-m", "determined.exec.entry")

M = TypeVar("M", bound="Message")


@dataclass(frozen=True)
class Message:
    """A part of the protocol that is sent as a JSON object."""

    def as_json(self) -> dict[str, Any]:
        """Return the object to send, without fields that are None."""
        return asdict(self, dict_factory=_without_none)

    @classmethod
    def from_json(cls: type[M], body: Mapping[str, Any]) -> M:
        """Build a message from a received object. Raises TypeError if a field without a default is missing."""
        values: dict[str, Any] = {}
        for f in fields(cls):
            if body.get(f.name) is not None:
                values[f.name] = _read(body[f.name], f.metadata.get("of"))
        return cls(**values)


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
    numa_node: int | None = None


@dataclass(frozen=True)
class SlotLink(Message):
    """A link between the GPUs of two slots. `kind` is a name of `nvidia-smi topo -m`: NV4, PIX, SYS, …"""

    a: int
    b: int
    kind: str


@dataclass(frozen=True)
class Mount(Message):
    host_path: str
    container_path: str
    read_only: bool = False
    propagation: str = "rprivate"


@dataclass(frozen=True)
class DataSetMount(Message):
    """A data set of a task. The agent loads it and mounts it read-only."""

    source: str
    at: str
    mode: DataMode = "cached"


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
class TraceTarget(Message):
    """The trace that the start of a container belongs to, and the collector of OTLP over HTTP that gets its spans."""

    traceparent: str
    endpoint: str = ""  # empty: the agent and the harness send no spans
    is_rented: bool = False  # the boot of the machine belongs to the start


@dataclass(frozen=True)
class ContainerSpec(Message):
    """The specification by which an agent runs a container. The agent adds its own settings."""

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
    data_sets: tuple[DataSetMount, ...] = _list_of(DataSetMount)
    user: TaskUser = field(default=TaskUser(), metadata={"of": TaskUser})
    replica_bytes: int = 0  # the agent gives the trial a directory in memory for so many bytes
    trace: TraceTarget | None = field(default=None, metadata={"of": TraceTarget})


@dataclass(frozen=True)
class ContainerReport(Message):
    """The state of a container. Each poll repeats it until the control plane has recorded the end of the container."""

    id: str
    epoch: int
    state: ContainerState
    exit_code: int | None = None
    failure: Failure | None = None
    message: str | None = None
    address: str | None = None
    host_ports: Mapping[str, int] | None = None
    runtime_id: str | None = None
    data_s: float | None = None  # how long its data sets were loaded before it started

    def moved(self, state: ContainerState, **changes: Any) -> "ContainerReport":
        return replace(self, state=state, **changes)


@dataclass(frozen=True)
class MachineSignal(Message):
    """A notice that the cloud is about to stop the agent's machine."""

    kind: SignalKind
    deadline: str | None = None  # RFC 3339


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
    links: tuple[SlotLink, ...] = _list_of(SlotLink)
    out_of_service: str = ""
    # Seconds since the machine booted, and since its image was made. Durations need no common clock.
    uptime_s: float | None = None
    image_age_s: float | None = None
    # All containers of the agent. Runs that were declared lost during its absence can continue.
    containers: tuple[ContainerReport, ...] = _list_of(ContainerReport)
    proof: Mapping[str, str] = field(default_factory=dict, repr=False)


def join_nonce(cluster_id: str, agent_id: str, agent_key: str, incarnation: str) -> str:
    """Return the nonce of a machine's proof, which binds it to one agent process and one cluster."""
    document = json.dumps([cluster_id, agent_id, agent_key, incarnation])
    return hashlib.sha256(document.encode()).hexdigest()


def gce_audience(nonce: str) -> str:
    """Return the audience of a Google machine's identity token. It contains the nonce, so it is valid for one join."""
    return f"determined-join/{nonce}"


# A machine on EC2 signs this request and the control plane sends it. The answer proves the machine's role.
STS_BODY = "Action=GetCallerIdentity&Version=2011-06-15"
STS_NONCE_HEADER = "X-Determined-Nonce"


def sts_host(region: str) -> str:
    """Return the host to which the proof of a machine in this region is sent."""
    domain = "api.amazonwebservices.com.cn" if region.startswith("cn-") else "api.aws"
    return f"sts.{region}.{domain}"


def sts_headers(region: str, nonce: str) -> dict[str, str]:
    """Return the signed headers, except the date and the session token."""
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
class HeldDataSet(Message):
    """A data set of which the agent's cache holds `bytes` of `total`."""

    source: str
    bytes: int
    total: int
    in_use: bool = False


@dataclass(frozen=True)
class DataCacheReport(Message):
    """The agent's cache of data sets. `sets` begins with the last used one."""

    size_bytes: int
    used_bytes: int
    sets: tuple[HeldDataSet, ...] = _list_of(HeldDataSet)


@dataclass(frozen=True)
class GpuSample(Message):
    """The use of a GPU by all programs. `util` is a percentage, or None if the driver does not report it."""

    slot: int
    memory: float  # bytes, the largest value
    memory_limit: float
    util: float | None = None


@dataclass(frozen=True)
class ResourceSample(Message):
    """The resources that a container used for some seconds: means of rates, and the largest memory.

    A value is None if the runtime cannot measure it."""

    container_id: str
    start: float  # seconds since 1970, by the agent's clock
    seconds: float
    cpu: float | None = None  # cores
    cpu_limit: float | None = None
    memory: float | None = None  # bytes
    memory_limit: float | None = None
    disk_read: float | None = None  # bytes per second, as the following
    disk_write: float | None = None
    net_received: float | None = None
    net_sent: float | None = None
    gpus: tuple[GpuSample, ...] = _list_of(GpuSample)


@dataclass(frozen=True)
class PollRequest(Message):
    incarnation: str
    seq: int
    containers: tuple[ContainerReport, ...] = _list_of(ContainerReport)
    signals: tuple[MachineSignal, ...] = _list_of(MachineSignal)
    out_of_service: str = ""
    seen: str = ""
    wait_s: float = 0.0
    gone: bool = False  # the agent exits and no container of it runs any more
    unsent: bool = False  # the agent's disk has log lines that were not sent yet
    # Sent after a change, and with the first poll after a join.
    data_cache: DataCacheReport | None = field(default=None, metadata={"of": DataCacheReport})
    replicas: tuple[str, ...] = ()  # tasks with a directory in the agent's memory
    # Each sample is repeated until a poll with it is answered.
    resources: tuple[ResourceSample, ...] = _list_of(ResourceSample)


@dataclass(frozen=True)
class Directive(Message):
    """A container that the agent should have, and the order to run, preempt or kill it."""

    id: str
    epoch: int
    allocation_id: str = ""
    desired: Literal["running", "killed"] = "running"
    preempt: bool = False
    # The time that a preempted container has left. It is relative, because the clocks of machines differ.
    kill_within_s: float | None = None
    spec: ContainerSpec | None = field(default=None, metadata={"of": ContainerSpec})


@dataclass(frozen=True)
class PollAnswer(Message):
    containers: tuple[Directive, ...] = _list_of(Directive)
    forget: tuple[str, ...] = ()
    version: str = ""
    next_poll_s: float = 1.0
    logs_within_s: float = 1.0  # longest time for which the agent may collect log lines
    draining: bool = False
    # The relay to connect to: a URL, or a path of the control plane. Empty: no relay.
    relay: str = ""
    # Tasks whose directory in memory the agent may delete.
    drop_replicas: tuple[str, ...] = ()


@dataclass(frozen=True)
class MetricsReport(Message):
    """A report of metrics as a container sent it, with the token of its allocation."""

    trial_id: int
    token: str = field(repr=False)
    key: str  # the Idempotency-Key of the report
    report: str  # the body, which is passed on unread


@dataclass(frozen=True)
class ReportsRequest(Message):
    reports: tuple[MetricsReport, ...] = _list_of(MetricsReport)


@dataclass(frozen=True)
class ReportsAnswer(Message):
    """The outcome of each report, in the order of the request."""

    outcomes: tuple[ReportOutcome, ...] = ()
