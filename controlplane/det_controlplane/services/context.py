"""The context of every use case: the database, the clock, the waker and the cluster's settings."""

import copy
import secrets
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone

from det_controlplane.core.config import ClusterConfig
from det_controlplane.db.engine.database import Database
from det_controlplane.db.engine.replica import Replica
from det_controlplane.db.people.sessions import Holder
from det_controlplane.ports.cipher import Cipher
from det_controlplane.ports.courier import Courier, NoCourier
from det_controlplane.ports.files import CheckpointFiles, ObjectStore
from det_controlplane.ports.identity import IdentityVerifier, Issuers, TokenVerifier
from det_controlplane.ports.waker import Waker
from det_controlplane.ports.wheel import OwnWheel
from det_controlplane.services.batching import Batcher
from det_controlplane.services.memory import ExperimentMemory
from det_controlplane.services.random_text import random_text
from det_controlplane.services.recorder import NoRecorder, Recorder

RELAY_PATH = "/agents/v1/relay"


def _utc_now() -> datetime:
    return datetime.now(timezone.utc)


@dataclass(slots=True)
class DatabaseHealth:
    """Observations of this process about the database."""

    full_at: datetime | None = None  # the last time at which it had no room for a request's data
    wrote_at: datetime | None = None  # the last time at which a health check wrote


@dataclass(slots=True)
class Context:
    """Built once a process by an entry point; tests and the simulator build their own."""

    db: Database
    config: ClusterConfig
    waker: Waker
    objects: ObjectStore
    cluster_id: str
    replica: Replica | None = None  # answers lists and reports
    bootstrap_token: str = ""
    cipher: Cipher | None = None  # None: secrets of configurations are refused
    public_url: str = ""
    relay_url: str = ""  # of another process that carries traffic to tasks
    revision: str = ""  # of this program at its address; another one is another relay
    carries_traffic: bool = False  # agents and clients find the relay at the address of this API
    # Tasks to which connections are open through this process.
    open_traffic: Callable[[], Iterable[str]] = tuple
    public: bool = False  # more than this machine reaches the API
    checkpoint_files: CheckpointFiles | None = None
    may_wait_s: float = 0.0  # how long this host can hold a request
    # Sends a request to the public address of the API, and returns whether it was answered. None: there is no address.
    reach_api: Callable[[], bool] | None = None
    now: Callable[[], datetime] = _utc_now
    new_uuid: Callable[[], uuid.UUID] = uuid.uuid4
    new_token: Callable[[], str] = random_text
    new_seed: Callable[[], int] = lambda: secrets.randbits(31)
    courier: Courier = field(default_factory=NoCourier)
    tokens: TokenVerifier | None = None  # of pipelines and people, signed by issuers
    issuers: Issuers | None = None
    identities: Mapping[str, IdentityVerifier] = field(default_factory=dict)  # by kind of proof
    wheel: OwnWheel | None = None  # the wheel for rented machines with images without an agent
    health: DatabaseHealth = field(default_factory=DatabaseHealth)
    recorder: NoRecorder = field(
        default_factory=NoRecorder
    )  # of the request that the context serves
    memory: ExperimentMemory = field(default_factory=ExperimentMemory)
    # One statement finds the callers of requests that arrive together.
    holders: Batcher[bytes, Holder | None] = field(default_factory=Batcher)

    def with_recorder(self, recorder: Recorder) -> "Context":
        """Return a context with the same parts. Its transactions write the recorder's audit entry."""
        context = copy.copy(self)
        context.db, context.recorder = self.db.with_hook(recorder), recorder
        return context

    @property
    def relay_for_agents(self) -> str:
        """Return where agents connect for traffic to tasks: a URL or a path of this API; empty: nowhere."""
        if not self.relay_url:
            return RELAY_PATH if self.carries_traffic else ""
        # Agents connect again when it changes, because the old relay still has their connections after an upgrade.
        return self.relay_url + RELAY_PATH + (f"?for={self.revision}" if self.revision else "")
