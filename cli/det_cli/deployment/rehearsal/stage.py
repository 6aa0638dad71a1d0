"""The context of a rehearsal's steps: the cluster, its cloud, a clock, and the work to end."""

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
Result = TypeVar("Result")


class Clock:
    """The current time and a way to wait. Tests replace it."""

    def now(self) -> datetime:
        return datetime.now(timezone.utc)

    def elapsed_s(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


@dataclass(frozen=True)
class DatabaseState:
    """The state of the cluster's database in the cloud."""

    is_paused: bool | None  # None: it never pauses, or the state is unknown
    sentence: str


class Cloud(Protocol):
    """The operator's cloud account."""

    name: str
    storage_type: str  # the type of checkpoint storage in this cloud

    def machines(self) -> Sequence[str]:
        """Return the machines with the cluster's tag that are not terminated."""

    def schedules_on(self, names: Sequence[str]) -> Sequence[str]:
        """Return the names of the enabled schedules."""

    def database(self) -> DatabaseState: ...

    def reclaim(self, machine: Machine) -> str:
        """Reclaim a machine in the way most similar to a spot reclaim. Return a sentence about it."""

    def stored(self, bucket: str, checkpoint: str) -> Sequence[str]:
        """Return the names of a checkpoint's objects in a bucket."""


class Deployed(Protocol):
    """The deployment of the cluster."""

    cluster_id: str

    def exists(self) -> bool: ...

    def make(self) -> None:
        """Create the cluster, or deploy it again with its stored options."""

    def outputs(self) -> Mapping[str, Any]:
        """Return the outputs of the stack."""

    def sign_in(self) -> ClusterClient: ...

    def remove(self) -> Sequence[str]:
        """Remove the cluster and return the kept resources. Raises CommandError if other resources remain."""


@dataclass
class Stage:
    """The state of a rehearsal between its steps."""

    deployed: Deployed
    cloud: Cloud
    pool: str
    slots: int  # slots per job
    idle_minutes: float
    removes: bool  # True if the down step may remove the cluster
    say: Say
    clock: Clock = field(default_factory=Clock)
    client: ClusterClient | None = None
    version: str = ""  # the last known version of the cluster
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
        poll: Callable[[], Result | None],
        description: str,
        limit_s: float,
        explain: Callable[[], str] = lambda: "",
        *,
        next_step: str = "",
    ) -> Result:
        """Poll until there is a result. Raises StepFailed with the cluster's explanation after the limit."""
        started_s, explained, outage = self.clock.elapsed_s(), "", ""
        while True:
            try:
                result = poll()
                if result:
                    return result
                sentence = explain()
                if sentence and sentence != explained:
                    explained = sentence
                    self.say(f"  {sentence}")
            except (APIError, MasterUnreachableError) as e:
                if isinstance(e, APIError) and e.status < _SERVER_ERRORS:
                    raise
                outage = str(e)
            if self.clock.elapsed_s() - started_s > limit_s:
                reason = f": {explained or outage}" if explained or outage else ""
                raise StepFailed(
                    f"after {limit_s:.0f} s there was still no {description}{reason}",
                    next_step or "`det why` and `det instance list --all` show details",
                )
            self.clock.sleep(_LOOK_S)


FAILURES = (APIError, MasterUnreachableError, Failure, CommandError)


def cause_and_hint(error: BaseException) -> tuple[str, str]:
    """Return the cause and the hint of an unexpected failure in a step."""
    cause = str(getattr(error, "cause", "") or error)
    return cause, str(getattr(error, "hint", "") or "fix the cause and rehearse again")
