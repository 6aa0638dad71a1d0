"""The surroundings of a rehearsal's steps: the cluster, its cloud, a clock, and the work to end."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Protocol, TypeVar

from determined.common.failures import Failure
from determined.common.http import APIError, MasterUnreachableError

from det_cli.deployment.rehearsal.cluster_client import ClusterClient, Machine
from det_cli.deployment.rehearsal.records import StepFailed
from det_cli.errors import CommandError
from det_cli.render import Say

_LOOK_S = 5.0
_SERVER_ERRORS = 500
Found = TypeVar("Found")


class Clock:
    """Time, and a way to wait for it."""

    def now(self) -> datetime:
        return datetime.now(timezone.utc)

    def elapsed_s(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


@dataclass(frozen=True)
class DatabaseState:
    """The cloud's view of the cluster's database."""

    is_paused: bool | None  # None: it never pauses, or the cloud does not say
    sentence: str


class Cloud(Protocol):
    """The operator's account, asked beside the cluster."""

    name: str
    storage_type: str  # of checkpoints in a bucket of this cloud

    def machines(self) -> Sequence[str]:
        """Return the machines with the cluster's tag that are not gone."""

    def schedules_on(self, names: Sequence[str]) -> Sequence[str]:
        """Return those schedules that are switched on."""

    def database(self) -> DatabaseState: ...

    def reclaim(self, machine: Machine) -> str:
        """Take a machine away, as near to a reclaim of spot capacity as an operator may. Return a sentence about it."""

    def stored(self, bucket: str, checkpoint: str) -> Sequence[str]:
        """Return the names of a checkpoint's objects in a bucket."""


class Deployed(Protocol):
    """The deployment of the cluster."""

    cluster_id: str

    def exists(self) -> bool: ...

    def make(self) -> None:
        """Create the cluster, or deploy it again with the options it has."""

    def outputs(self) -> Mapping[str, Any]:
        """Return the outputs of the stack."""

    def sign_in(self) -> ClusterClient: ...

    def remove(self) -> Sequence[str]:
        """Remove the cluster; return the resources that stay on purpose. Raises CommandError for others."""


@dataclass
class Stage:
    """The state of a rehearsal between its steps."""

    deployed: Deployed
    cloud: Cloud
    pool: str
    slots: int  # of the jobs in that pool
    idle_minutes: float
    removes: bool  # whether `down` may remove the cluster
    say: Say
    clock: Clock = field(default_factory=Clock)
    client: ClusterClient | None = None
    version: str = ""  # of the cluster, when it was last asked
    made_cluster: bool = False
    is_removed: bool = False
    experiments: list[int] = field(default_factory=list)
    notebooks: list[str] = field(default_factory=list)
    remains: list[str] = field(default_factory=list)

    @property
    def cluster(self) -> ClusterClient:
        assert self.client is not None, "the step `up` signs in"
        return self.client

    def until(
        self,
        look: Callable[[], Found | None],
        what: str,
        limit_s: float,
        explain: Callable[[], str] = lambda: "",
        *,
        next_step: str = "",
    ) -> Found:
        """Look until there is something. Raises StepFailed after the limit, with the cluster's explanation."""
        begun, explained, trouble = self.clock.elapsed_s(), "", ""
        while True:
            try:
                found = look()
                if found:
                    return found
                sentence = explain()
                if sentence and sentence != explained:
                    explained = sentence
                    self.say(f"  {sentence}")
            except (APIError, MasterUnreachableError) as e:
                if isinstance(e, APIError) and e.status < _SERVER_ERRORS:
                    raise
                trouble = str(e)
            if self.clock.elapsed_s() - begun > limit_s:
                reason = f": {explained or trouble}" if explained or trouble else ""
                raise StepFailed(
                    f"after {limit_s:.0f} s there was still no {what}{reason}",
                    next_step or "`det why` and `det instance list --all` say more",
                )
            self.clock.sleep(_LOOK_S)


FAILURES = (APIError, MasterUnreachableError, Failure, CommandError)


def told(error: BaseException) -> tuple[str, str]:
    """Return the cause and the hint of a failure that a step did not foresee."""
    cause = str(getattr(error, "cause", "") or error)
    return cause, str(getattr(error, "hint", "") or "correct the cause and rehearse again")
