"""The main loop: join, poll and apply the answers of the control plane."""

import enum
import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from det_controlplane.core.agent_protocol import (
    DataCacheReport,
    JoinAnswer,
    JoinRequest,
    PollAnswer,
    PollRequest,
    ResourceSample,
)
from determined.common.connections import JITTER, pauses
from determined.common.http import (
    APIError,
    ConflictError,
    MasterUnreachableError,
    UnauthenticatedError,
)

from det_agent.client import ControlPlane
from det_agent.containers import Containers
from det_agent.health import Health, image_age_s, uptime_s
from det_agent.notices import Signals
from det_agent.reconcile import Action, Forget, Kill, Refuse, Start, preempting, reconcile
from det_agent.replicas import Replicas
from det_agent.runtime import ContainerSessions

LONGEST_BACKOFF_S = 10.0
EARLY_ANSWER_S = 0.5
SHORTEST_PAUSE_S = 0.1
# How long a machine waits to report the end of its work: an outage of a day, and an hour to reach the cluster again.
LONGEST_REPORT_WAIT_S = 25 * 3600.0

_log = logging.getLogger(__name__)


class AgentReplaced(Exception):
    """Another process has this agent's identity. This process must stop and leave the containers to it."""


class ControlPlaneSilent(Exception):
    """The control plane did not answer for longer than the configured limit."""


class Samples(Protocol):
    """The measurements that polls carry."""

    def pending(self) -> tuple[ResourceSample, ...]:
        """Return samples for the next poll."""

    def delivered(self, samples: tuple[ResourceSample, ...]) -> None:
        """Forget samples, because a poll with them was answered."""


class NoSamples:
    def pending(self) -> tuple[ResourceSample, ...]:
        return ()

    def delivered(self, samples: tuple[ResourceSample, ...]) -> None:
        pass


@dataclass(frozen=True)
class LoopDependencies:
    control_plane: ControlPlane
    containers: Containers
    sessions: ContainerSessions
    signals: Signals
    health: Health
    join_request: JoinRequest
    proof: Callable[[], Mapping[str, str]]
    on_joined: Callable[[JoinAnswer], None]
    pace_logs: Callable[[float], None]
    has_unsent: Callable[[], bool]
    want_relay: Callable[[str], None]
    replicas: Replicas
    data_cache: Callable[[], DataCacheReport | None] = lambda: None
    samples: Samples = field(default_factory=NoSamples)
    silence_limit_s: float = 0.0


@dataclass
class _Contact:
    """The number of polls and applied answers. An answer that was overtaken by a newer one is not applied."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    polls: int = 0
    applied: int = 0
    seen: str = ""
    silent_since: float | None = None
    data_cache: DataCacheReport | None = None  # as the control plane knows it


class _Outcome(enum.Enum):
    NEWS = "news"
    NOTHING_NEW = "nothing new"
    OVERTAKEN = "overtaken"


class Loop:
    """Poll the control plane. `run` keeps a long poll open if allowed, and `_report` sends changes immediately."""

    def __init__(self, agent: LoopDependencies, changed: threading.Event) -> None:
        self._agent = agent
        self._changed = changed
        self._stop = threading.Event()
        self._contact = _Contact()
        self._may_wait_s = 0.0
        self._due = 0.0
        self._due_moved = threading.Event()
        self._replaced: AgentReplaced | None = None

    @property
    def in_contact(self) -> bool:
        """Return whether the control plane answered the last request."""
        return self._contact.applied > 0 and self._contact.silent_since is None

    def stop(self) -> None:
        self._stop.set()
        self._changed.set()
        self._due_moved.set()

    def run(self) -> None:
        """Join and poll until `stop`. Raises AgentReplaced or ControlPlaneSilent."""
        self._join_until_accepted()
        threading.Thread(target=self._report, name="report", daemon=True).start()
        next_pause = _pauses()
        while not self._stop.is_set():
            try:
                self._poll_once()
            except UnauthenticatedError as e:
                self._back_off(next_pause, e)
                self._join_until_accepted()
            except (APIError, MasterUnreachableError) as e:
                self._back_off(next_pause, e)
            else:
                next_pause = _pauses()
                self._pause()
        if self._replaced is not None:
            raise self._replaced

    def last_report(self, *, gone: bool) -> None:
        """Poll once more before the process ends, so that the control plane has the last states."""
        try:
            self._exchange(0.0, gone=gone)
        except (APIError, MasterUnreachableError, AgentReplaced) as e:
            _log.info("could not say goodbye: %s", e)

    def _join_until_accepted(self) -> None:
        next_pause = _pauses()
        while not self._stop.is_set():
            try:
                request = replace(
                    self._agent.join_request,
                    out_of_service=self._agent.health.out_of_service,
                    uptime_s=uptime_s(),
                    image_age_s=image_age_s(),
                    containers=tuple(self._agent.containers.reports().values()),
                    proof=self._agent.proof(),
                )
                answer = self._agent.control_plane.join(request)
                # Store the cluster before any container starts, because the next process adopts by cluster.
                self._agent.on_joined(answer)
            except (APIError, MasterUnreachableError, OSError) as e:
                self._back_off(next_pause, e)
            else:
                self._contact.silent_since = None
                self._contact.data_cache = None
                self._may_wait_s = answer.may_wait_s
                _log.info("joined the cluster %s", answer.cluster_id)
                return

    def _poll_once(self) -> None:
        start = time.monotonic()
        outcome = self._exchange(self._may_wait_s)
        if outcome is _Outcome.OVERTAKEN:
            outcome = self._exchange(0.0)
        if self._may_wait_s > 0:
            early = time.monotonic() - start < min(EARLY_ANSWER_S, self._may_wait_s)
            # Pause if a server answers long polls immediately, to avoid a busy loop.
            idle = early and outcome is _Outcome.NOTHING_NEW
            self._due = time.monotonic() + (EARLY_ANSWER_S if idle else 0.0)

    def _pause(self) -> None:
        """Wait until the next poll is due. `_report` may change this time."""
        while not self._stop.is_set():
            remaining_s = self._due - time.monotonic()
            if remaining_s <= 0:
                return
            self._due_moved.wait(remaining_s)
            self._due_moved.clear()

    def _report(self) -> None:
        """Send changes without waiting for the current poll."""
        while not self._stop.is_set():
            self._changed.wait()
            self._changed.clear()
            try:
                if self._stop.is_set():
                    return
                if self._exchange(0.0) is _Outcome.OVERTAKEN:
                    self._changed.set()
            except AgentReplaced as e:
                self._replaced = e
                self.stop()
            except (APIError, MasterUnreachableError) as e:
                _log.debug("the change is told at the next poll: %s", e)

    def _exchange(self, wait_s: float, *, gone: bool = False) -> _Outcome:
        """Poll and apply the answer."""
        with self._contact.lock:
            # A poll with a higher number has newer states, including everything that was applied.
            applied_before = self._contact.applied
            reports = self._agent.containers.reports()
            self._contact.polls += 1
            seq = self._contact.polls
            data_cache = self._agent.data_cache()
            is_known = data_cache == self._contact.data_cache
        samples = self._agent.samples.pending()
        try:
            answer = self._agent.control_plane.poll(
                PollRequest(
                    incarnation=self._agent.join_request.incarnation,
                    seq=seq,
                    containers=tuple(reports.values()),
                    signals=self._agent.signals.current(),
                    out_of_service=self._agent.health.out_of_service,
                    seen=self._contact.seen,
                    wait_s=wait_s,
                    gone=gone,
                    unsent=self._agent.has_unsent(),
                    data_cache=None if is_known else data_cache,
                    replicas=self._agent.replicas.tasks(),
                    resources=samples,
                )
            )
        except ConflictError as e:
            raise AgentReplaced(e.message) from e
        self._agent.samples.delivered(samples)
        with self._contact.lock:
            self._contact.silent_since = None
            self._contact.data_cache = data_cache
            if self._contact.applied != applied_before:
                # Two requests were in progress, so this answer may be older than the applied one.
                return _Outcome.OVERTAKEN
            self._contact.applied += 1
            return self._apply(answer)

    def _apply(self, answer: PollAnswer) -> _Outcome:
        pause_s = max(answer.next_poll_s, SHORTEST_PAUSE_S) * JITTER.uniform(0.8, 1.2)
        # Long polls follow each other immediately, also if the last answer belonged to a report.
        self._due = time.monotonic() + (0.0 if self._may_wait_s > 0 else pause_s)
        self._due_moved.set()
        self._agent.pace_logs(answer.logs_within_s)
        self._agent.want_relay(answer.relay)
        self._agent.sessions.set_preempting(preempting(answer.containers))
        if answer.drop_replicas:
            running = self._agent.containers.running_tasks()
            self._agent.replicas.drop(answer.drop_replicas, running)
        actions = reconcile(answer.containers, answer.forget, self._agent.containers.reports())
        for action in actions:
            self._perform(action)
        listed = {directive.id for directive in answer.containers}
        if any(isinstance(action, Forget) and action.id in listed for action in actions):
            # The control plane sends the new run of this container after the old one is not reported any more.
            self._changed.set()
        news = bool(actions) or answer.version != self._contact.seen
        self._contact.seen = answer.version
        return _Outcome.NEWS if news else _Outcome.NOTHING_NEW

    def _perform(self, action: Action) -> None:
        containers = self._agent.containers
        if isinstance(action, Start):
            containers.start(action.spec)
        elif isinstance(action, Kill):
            containers.kill(action.id, action.reason)
        elif isinstance(action, Refuse):
            containers.refuse(action.directive)
        elif isinstance(action, Forget):
            containers.forget(action.id)

    def _back_off(self, next_pause: Iterator[float], reason: Exception) -> None:
        now = time.monotonic()
        self._contact.silent_since = self._contact.silent_since or now
        silent_s = now - self._contact.silent_since
        if self._silence_is_over(silent_s):
            raise ControlPlaneSilent(
                f"no answer from the control plane for {silent_s:.0f} s: {reason}"
            )
        _log.warning("the cluster refused or did not answer, trying again: %s", reason)
        self._stop.wait(max(next(next_pause), getattr(reason, "retry_after_s", 0.0)))

    def _silence_is_over(self, silent_s: float) -> bool:
        """Return whether the machine has waited long enough for the cluster.

        The machine waits while containers run: their results are worth more than the machine. It waits up to 25
        hours to report an exit, because otherwise the cluster repeats the work or counts it as lost."""
        limit_s, containers = self._agent.silence_limit_s, self._agent.containers
        if not limit_s or silent_s < limit_s or containers.live():
            return False
        return silent_s >= LONGEST_REPORT_WAIT_S or not containers.has_unreported_ends()


def _pauses() -> Iterator[float]:
    """Return pauses: none before the first retry, then longer and longer ones."""
    return itertools.chain((0.0,), pauses(0.25, LONGEST_BACKOFF_S))
