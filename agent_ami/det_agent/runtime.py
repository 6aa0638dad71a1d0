"""The interface of the two runtimes, Docker containers and plain processes, and the session tokens of containers."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from det_controlplane.core.agent_protocol import ContainerSpec, Failure

Say = Callable[[str], None]
Stream = Literal["stdout", "stderr"]


@dataclass(frozen=True)
class GatewayAddress:
    """The port of the task gateway, and the answer to a ping that identifies this agent."""

    port: int
    ping_token: str
    host: str = ""  # the operator's address; empty: find it


@dataclass(frozen=True)
class ContainerKey:
    """The ids of a container and its session token. They stay the same after a restart of the agent."""

    id: str
    epoch: int
    allocation_id: str
    task_id: str
    session_token: str = field(repr=False, default="")
    log_patterns: tuple[str, ...] = ()

    @classmethod
    def of(cls, spec: ContainerSpec) -> "ContainerKey":
        return cls(
            spec.container_id,
            spec.epoch,
            spec.allocation_id,
            spec.task_id,
            spec.session_token,
            spec.log_patterns,
        )

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "ContainerKey":
        return cls(**{**fields, "log_patterns": tuple(fields.get("log_patterns") or ())})

    @property
    def place(self) -> str:
        """Return the directory name of this run of the container. Later runs have other names."""
        return f"{self.id}.{self.epoch}"


@dataclass(frozen=True)
class Started:
    """A started container, which runs independently of the agent. `runtime_id` identifies it after a restart."""

    key: ContainerKey
    runtime_id: str
    host_ports: Mapping[int, int] = field(default_factory=dict)
    slot_ids: tuple[int, ...] = ()


@dataclass(frozen=True)
class Usage:
    """The resources of a running container. Counters count from its start. None: the runtime cannot measure it."""

    cpu_s: float | None = None
    cpu_limit: float | None = None  # cores
    memory: float | None = None  # bytes, as the following
    memory_limit: float | None = None
    disk_read: float | None = None
    disk_write: float | None = None
    net_received: float | None = None
    net_sent: float | None = None


@dataclass(frozen=True)
class Exit:
    """The end of a container. `exit_code` is None if it was lost, and `reason` is the task's own message."""

    exit_code: int | None
    message: str = ""
    reason: str = ""


@dataclass(frozen=True)
class OutputLine:
    text: str
    timestamp: str
    cursor: str


class StartFailed(Exception):
    """The container never ran. The kind of failure decides whether it counts as one of the user's restarts."""

    def __init__(self, failure: Failure, message: str) -> None:
        super().__init__(message)
        self.failure: Failure = failure


class NoRoom(StartFailed):
    """The container never ran because this machine's disk is full. Another machine may have room."""


class Runtime(Protocol):
    kind: Literal["docker", "process"]

    def is_isolated(self, network: str) -> bool:
        """Return whether containers on `network` cannot reach the metadata service. Raises StartFailed."""

    def host_address(self, network: str, gateway: GatewayAddress) -> str:
        """Return the gateway's address for containers on `network`. Raises StartFailed if they cannot reach it."""

    def check(self, gateway: GatewayAddress) -> None:
        """Start a container that connects to the gateway. Raises StartFailed with the cause and the fix."""

    def prepare(self, spec: ContainerSpec, say: Say, cancelled: Callable[[], bool]) -> None:
        """Make the image available. Raises StartFailed."""

    def start(self, spec: ContainerSpec, env: Mapping[str, str]) -> Started:
        """Start a container. Variables in `env` override `spec.env`. Raises StartFailed."""

    def kill(self, key: ContainerKey) -> None:
        """Send SIGKILL to all processes of the container."""

    def wait(self, started: Started) -> Exit:
        """Wait until the container has exited. Return at once if it has exited before."""

    def output(self, started: Started, stream: Stream, cursor: str) -> Iterator[OutputLine]:
        """Yield the container's output after `cursor` until it exits. The cursor '' is the beginning."""

    def addresses(self, started: Started, port: int) -> Sequence[tuple[str, int]]:
        """Return the addresses of a container's port, the nearest first, or none for other ports."""

    def usage(self, started: Started) -> Usage | None:
        """Return the resources that a container uses, or None if it does not run or cannot be measured now."""

    def adoptable(self, cluster_id: str) -> Sequence[Started]:
        """Return the containers of an earlier process of this agent, running or not."""

    def remove_leftovers(self) -> None:
        """Delete incomplete containers of an earlier process of this agent."""

    def remove(self, key: ContainerKey) -> None:
        """Delete the remains of an exited container."""


class ContainerSessions:
    """Find containers by session token, and let them wait until their allocations should save a checkpoint and exit."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._by_id: dict[str, ContainerKey] = {}
        self._preempting: dict[str, float] = {}  # until when on the monotonic clock
        self._stopped = False

    def open(self, key: ContainerKey) -> None:
        with self._changed:
            self._by_id[key.id] = key

    def close(self, container_id: str) -> None:
        with self._changed:
            self._by_id.pop(container_id, None)
            self._changed.notify_all()

    def owner_of(self, tokens: Iterable[str]) -> ContainerKey | None:
        presented = {token for token in tokens if token}
        with self._changed:
            return next((k for k in self._by_id.values() if k.session_token in presented), None)

    def set_preempting(self, seconds_left: Mapping[str, float]) -> None:
        """Note the allocations that should exit, and the seconds until they are killed."""
        now = time.monotonic()
        with self._changed:
            self._preempting = {id: now + seconds for id, seconds in seconds_left.items()}
            self._changed.notify_all()

    def wait_for_preemption(self, key: ContainerKey, timeout_s: float) -> float | None:
        """Return the seconds that the allocation has left to exit, or None on timeout or if the container has ended."""
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    key.allocation_id in self._preempting
                    or key.id not in self._by_id
                    or self._stopped
                ),
                timeout_s,
            )
            until = self._preempting.get(key.allocation_id)
            return None if until is None else max(0.0, until - time.monotonic())

    def stop_waiting(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
