"""What the agent and the control plane say to each other (docs/reference/agent-protocol.md)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

ContainerState = Literal["assigned", "pulling", "starting", "running", "terminated"]
Failure = Literal["container_failed", "image_pull", "agent_error", "aborted"]
SlotType = Literal["cuda", "rocm", "cpu"]
SignalKind = Literal["spot_interruption", "rebalance", "maintenance", "shutdown"]

KILLED_EXIT_CODE = 137


@dataclass(frozen=True)
class Slot:
    id: int
    type: SlotType
    uuid: str
    brand: str

    def as_json(self) -> dict[str, Any]:
        return {"id": self.id, "type": self.type, "uuid": self.uuid, "brand": self.brand}


@dataclass(frozen=True)
class Mount:
    host_path: str
    container_path: str
    read_only: bool = False
    propagation: str = "rprivate"


@dataclass(frozen=True)
class Device:
    host_path: str
    container_path: str
    mode: str = "rwm"


@dataclass(frozen=True)
class ContainerFile:
    path: str
    mode: int
    content_b64: str


@dataclass(frozen=True)
class TaskUser:
    uid: int = 0
    gid: int = 0
    user: str = "root"
    group: str = "root"


@dataclass(frozen=True)
class ContainerSpec:
    container_id: str
    allocation_id: str
    task_id: str
    epoch: int
    command: tuple[str, ...]
    session_token: str
    name: str = ""
    task_type: str = ""
    image: str = ""
    force_pull: bool = False
    registry_auth: Mapping[str, str] = field(default_factory=dict)
    work_dir: str = "/run/determined/workdir"
    env: Mapping[str, str] = field(default_factory=dict)
    env_of_agent: tuple[str, ...] = ()
    files: tuple[ContainerFile, ...] = ()
    mounts: tuple[Mount, ...] = ()
    devices: tuple[Device, ...] = ()
    shm_size_bytes: int = 0
    cap_add: tuple[str, ...] = ()
    cap_drop: tuple[str, ...] = ()
    network: str = "bridge"
    ports: tuple[int, ...] = ()
    slot_ids: tuple[int, ...] = ()
    user: TaskUser = TaskUser()

    @property
    def key(self) -> "ContainerKey":
        return ContainerKey(
            self.container_id, self.epoch, self.allocation_id, self.task_id, self.session_token
        )


@dataclass(frozen=True)
class ContainerKey:
    """What the agent must know about a container for as long as it exists, also after a restart."""

    id: str
    epoch: int
    allocation_id: str
    task_id: str
    session_token: str = field(repr=False, default="")

    @property
    def place(self) -> str:
        """Its name on this machine: two lives of one container never share a place."""
        return f"{self.id}.{self.epoch}"


@dataclass(frozen=True)
class ContainerReport:
    id: str
    epoch: int
    state: ContainerState
    exit_code: int | None = None
    failure: Failure | None = None
    message: str = ""
    address: str = ""
    host_ports: Mapping[int, int] = field(default_factory=dict)
    runtime_id: str = ""

    def moved(self, state: ContainerState, **changes: Any) -> "ContainerReport":
        return replace(self, state=state, **changes)

    def as_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {"id": self.id, "epoch": self.epoch, "state": self.state}
        optional = {
            "exit_code": self.exit_code,
            "failure": self.failure,
            "message": self.message or None,
            "address": self.address or None,
            "host_ports": {str(k): v for k, v in self.host_ports.items()} or None,
            "runtime_id": self.runtime_id or None,
        }
        return body | {name: value for name, value in optional.items() if value is not None}


@dataclass(frozen=True)
class Directive:
    id: str
    allocation_id: str
    epoch: int
    desired: Literal["running", "killed"]
    preempt: bool = False
    spec: ContainerSpec | None = None


@dataclass(frozen=True)
class JoinAnswer:
    agent_token: str = field(repr=False)
    cluster_id: str = ""
    master_id: str = ""
    next_poll_s: float = 1.0
    may_wait_s: float = 0.0


@dataclass(frozen=True)
class PollAnswer:
    containers: tuple[Directive, ...]
    forget: tuple[str, ...] = ()
    version: str = ""
    next_poll_s: float = 1.0
    draining: bool = False


@dataclass(frozen=True)
class Signal:
    kind: SignalKind
    deadline: str = ""

    def as_json(self) -> dict[str, Any]:
        return {"kind": self.kind} | ({"deadline": self.deadline} if self.deadline else {})


def read_spec(body: Mapping[str, Any]) -> ContainerSpec:
    """Accept a specification with fields this version does not know: a newer control plane may send them."""
    return ContainerSpec(
        container_id=str(body["container_id"]),
        allocation_id=str(body["allocation_id"]),
        task_id=str(body["task_id"]),
        epoch=int(body["epoch"]),
        command=tuple(body["command"]),
        session_token=str(body.get("session_token") or ""),
        name=body.get("name") or "",
        task_type=body.get("task_type") or "",
        image=body.get("image") or "",
        force_pull=bool(body.get("force_pull")),
        registry_auth=body.get("registry_auth") or {},
        work_dir=body.get("work_dir") or "/run/determined/workdir",
        env={str(k): str(v) for k, v in (body.get("env") or {}).items()},
        env_of_agent=tuple(_items(body, "env_of_agent")),
        files=tuple(
            ContainerFile(f["path"], int(f.get("mode") or 0o644), f["content_b64"])
            for f in _items(body, "files")
        ),
        mounts=tuple(_read_mount(m) for m in _items(body, "mounts")),
        devices=tuple(
            Device(d["host_path"], d["container_path"], d.get("mode") or "rwm")
            for d in _items(body, "devices")
        ),
        shm_size_bytes=int(body.get("shm_size_bytes") or 0),
        cap_add=tuple(_items(body, "cap_add")),
        cap_drop=tuple(_items(body, "cap_drop")),
        network=body.get("network") or "bridge",
        ports=tuple(int(p) for p in _items(body, "ports")),
        slot_ids=tuple(int(s) for s in _items(body, "slot_ids")),
        user=_read_user(body.get("user") or {}),
    )


def read_poll_answer(body: Mapping[str, Any]) -> PollAnswer:
    return PollAnswer(
        containers=tuple(_read_directive(c) for c in _items(body, "containers")),
        forget=tuple(_items(body, "forget")),
        version=str(body.get("version") or ""),
        next_poll_s=float(body.get("next_poll_s") or 0.0),
        draining=bool(body.get("draining")),
    )


def read_join_answer(body: Mapping[str, Any]) -> JoinAnswer:
    return JoinAnswer(
        agent_token=body["agent_token"],
        cluster_id=body.get("cluster_id") or "",
        master_id=body.get("master_id") or "",
        next_poll_s=float(body.get("next_poll_s") or 1.0),
        may_wait_s=float(body.get("may_wait_s") or 0.0),
    )


def _items(body: Mapping[str, Any], name: str) -> Sequence[Any]:
    return body.get(name) or ()


def _read_mount(body: Mapping[str, Any]) -> Mount:
    return Mount(
        body["host_path"],
        body["container_path"],
        bool(body.get("read_only")),
        body.get("propagation") or "rprivate",
    )


def _read_user(body: Mapping[str, Any]) -> TaskUser:
    return TaskUser(
        int(body.get("uid") or 0),
        int(body.get("gid") or 0),
        body.get("user") or "root",
        body.get("group") or "root",
    )


def _read_directive(body: Mapping[str, Any]) -> Directive:
    return Directive(
        id=str(body["id"]),
        allocation_id=str(body.get("allocation_id") or ""),
        epoch=int(body["epoch"]),
        desired="killed" if body.get("desired") == "killed" else "running",
        preempt=bool(body.get("preempt")),
        spec=read_spec(body["spec"]) if body.get("spec") else None,
    )
