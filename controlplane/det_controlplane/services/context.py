"""The context of every use case: the database, the clock, the waker and the cluster's settings."""

import copy
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from uuid import UUID, uuid4

from det_controlplane.core.config import ClusterConfig
from det_controlplane.db.engine.database import Database
from det_controlplane.db.engine.replica import Replica
from det_controlplane.ports.cipher import Cipher
from det_controlplane.ports.clouds import Clouds
from det_controlplane.ports.courier import Courier, NoCourier
from det_controlplane.ports.files import CheckpointFiles, ObjectStore
from det_controlplane.ports.identity import IdentityVerifier, Issuers, TokenVerifier
from det_controlplane.ports.spans import Spans
from det_controlplane.ports.waker import Waker
from det_controlplane.ports.wheel import OwnWheel
from det_controlplane.services.memory import ProcessMemory
from det_controlplane.services.random_text import random_text
from det_controlplane.services.recorder import NoRecorder, Recorder

RELAY_PATH = "/agents/v1/relay"


def _utc_now() -> datetime:
    return datetime.now(timezone.utc)


@dataclass(slots=True)
class Host:
    """The process that serves the API: its addresses and abilities."""

    public_url: str = ""
    public: bool = False  # more than this machine reaches the API
    relay_url: str = ""  # of another process that carries traffic to tasks
    revision: str = ""  # of this program at its address; another one is another relay
    carries_traffic: bool = False  # agents and clients find the relay at the address of this API
    # Tasks to which connections are open through this process.
    open_traffic: Callable[[], Iterable[str]] = tuple
    may_wait_s: float = 0.0  # how long a request can be held
    # Sends a request to the public address of the API, and returns whether it was answered. None: there is no address.
    reach_api: Callable[[], bool] | None = None

    @property
    def relay_for_agents(self) -> str:
        """Return where agents connect for traffic to tasks: a URL or a path of this API; empty: nowhere."""
        if not self.relay_url:
            return RELAY_PATH if self.carries_traffic else ""
        # Agents connect again when it changes, because the old relay still has their connections after an upgrade.
        return self.relay_url + RELAY_PATH + (f"?for={self.revision}" if self.revision else "")


@dataclass(slots=True)
class Verifiers:
    """Check the signed proofs of pipelines, people and machines."""

    tokens: TokenVerifier | None = None  # of pipelines and people, signed by issuers
    issuers: Issuers | None = None
    machines: Mapping[str, IdentityVerifier] = field(default_factory=dict)  # by kind of proof


@dataclass(slots=True)
class RandomValues:
    uuid: Callable[[], UUID] = uuid4
    token: Callable[[], str] = random_text
    seed: Callable[[], int] = lambda: secrets.randbits(31)


@dataclass(slots=True)
class Context:
    """Built once a process by an entry point; tests and the simulator build their own."""

    db: Database
    config: ClusterConfig  # of the file; with the pools of the database after `stored_pools.at`
    waker: Waker
    objects: ObjectStore
    cluster_id: str
    host: Host = field(default_factory=Host)
    replica: Replica | None = None  # answers lists and reports
    bootstrap_token: str = ""
    verifiers: Verifiers = field(default_factory=Verifiers)
    cipher: Cipher | None = None  # None: secrets of configurations are refused
    checkpoint_files: CheckpointFiles | None = None
    clouds: Clouds | None = None  # None: pools in the database may rent anywhere
    file_config: ClusterConfig | None = None  # None: `config` is the file's
    wheel: OwnWheel | None = None  # the wheel for rented machines with images without an agent
    courier: Courier = field(default_factory=NoCourier)
    spans: Spans | None = None  # None: telemetry is off
    now: Callable[[], datetime] = _utc_now
    random: RandomValues = field(default_factory=RandomValues)
    # Of the request that the context serves.
    recorder: NoRecorder = field(default_factory=NoRecorder)
    memory: ProcessMemory = field(default_factory=ProcessMemory)

    def with_recorder(self, recorder: Recorder) -> "Context":
        """Return a context with the same parts. Its transactions write the recorder's audit entry."""
        context = copy.copy(self)
        context.db, context.recorder = self.db.with_hook(recorder), recorder
        return context
