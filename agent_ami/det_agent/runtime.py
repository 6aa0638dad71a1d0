"""The contract of the two runtimes: Docker containers and plain processes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from det_controlplane.core.agent_protocol import ContainerSpec, Failure

Say = Callable[[str], None]
Stream = Literal["stdout", "stderr"]


@dataclass(frozen=True)
class GatewayAddress:
    """The port of the task gateway, and the answer to a ping that proves it is this agent's."""

    port: int
    ping_token: str
    host: str = ""  # set by the operator instead of being found


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
        """Return the directory name of this run of the container, which a later run of it does not share."""
        return f"{self.id}.{self.epoch}"


@dataclass(frozen=True)
class Started:
    """A container that has a life of its own from now on; `runtime_id` finds it again after a restart."""

    key: ContainerKey
    runtime_id: str
    host_ports: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Exit:
    """The end of a container. `exit_code` is None when it is lost; `reason` is the task's own sentence."""

    exit_code: int | None
    message: str = ""
    reason: str = ""


@dataclass(frozen=True)
class OutputLine:
    text: str
    timestamp: str
    cursor: str


class StartFailed(Exception):
    """A container that never ran: the kind of failure decides whether the user's retries pay for it."""

    def __init__(self, failure: Failure, message: str) -> None:
        super().__init__(message)
        self.failure: Failure = failure


class NoRoom(StartFailed):
    """A container that never ran as this machine's disk is full: another machine may have room."""


class Runtime(Protocol):
    kind: Literal["docker", "process"]

    def is_kept_apart(self, network: str) -> bool:
        """Return whether containers on `network` do not reach the machine's metadata service. Raises StartFailed."""

    def host_address(self, network: str, gateway: GatewayAddress) -> str:
        """Return how a container on `network` reaches the gateway. Raises StartFailed when none does."""

    def check(self, gateway: GatewayAddress) -> None:
        """Start a container and let it reach the gateway. Raises StartFailed with the cause and the remedy."""

    def prepare(self, spec: ContainerSpec, say: Say, cancelled: Callable[[], bool]) -> None:
        """Make the image available. Raises StartFailed."""

    def start(self, spec: ContainerSpec, env: Mapping[str, str]) -> Started:
        """Start a container whose environment is `spec.env` under `env`. Raises StartFailed."""

    def kill(self, key: ContainerKey) -> None:
        """Send SIGKILL to everything in the container, if it still runs."""

    def wait(self, started: Started) -> Exit:
        """Block until the container has exited, also when that happened long ago."""

    def output(self, started: Started, stream: Stream, cursor: str) -> Iterator[OutputLine]:
        """Yield the container's output after `cursor` ("" is the beginning), until it exits."""

    def addresses(self, started: Started, port: int) -> Sequence[tuple[str, int]]:
        """Return where a port of the container is reached from here, the nearest first; none for other ports."""

    def adoptable(self, cluster_id: str) -> Sequence[Started]:
        """Return the containers that an earlier process of this agent started, running or not."""

    def remove_leftovers(self) -> None:
        """Delete incomplete containers that an earlier process of this agent left."""

    def remove(self, key: ContainerKey) -> None:
        """Delete what is left of an exited container."""
