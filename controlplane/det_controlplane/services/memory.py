"""Data that the requests of a process share: folded searches, the queue of the lock, waiting reports.

A decision does not replay its experiment's history while the process remembers the search.
"""

import threading
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from det_controlplane.core.config import ClusterConfig
from det_controlplane.core.trials.metric_names import MetricNames, measure
from det_controlplane.core.trials.metrics import MetricsReport
from det_controlplane.core.trials.reports import ReportingTrial
from det_controlplane.db.people.ownership import Owned
from det_controlplane.db.people.sessions import Holder
from det_controlplane.ports.identity import IdentityVerifier
from det_controlplane.services.batching import Batcher

if TYPE_CHECKING:
    from det_controlplane.core.search import History, Search

_CAPACITY = 256
_WATCHED = 16  # searches with the history of each trial, for pages that show them
_TRIALS_KEPT = 50_000
_REPORTING = 256  # trials with their summaries
_LONGEST_NAMES = 16 * 1024  # of the names in a cached summary
_NAMES_BYTES = 16 * 1024 * 1024  # of all cached metric names
_NAME_BYTES = 150  # memory of a name, in addition to its characters


@dataclass(slots=True)
class KeptSearch:
    seq: int
    search: "Search"
    progress_at: datetime | None = None  # when the experiment's progress was computed last


@dataclass(slots=True)
class WatchedSearch:
    """A search that was folded from its first event, with its decisions on each trial."""

    seq: int
    search: "Search"
    histories: Sequence["History"]


class WatchedSearches:
    """Keeps the folded search of an experiment for one request at a time. A second request folds it again."""

    def __init__(self) -> None:
        self._entries: OrderedDict[int, WatchedSearch] = OrderedDict()
        self._lock = threading.Lock()

    def pop(self, experiment_id: int) -> WatchedSearch | None:
        with self._lock:
            return self._entries.pop(experiment_id, None)

    def store(self, experiment_id: int, entry: WatchedSearch) -> None:
        with self._lock:
            self._entries[experiment_id] = entry
            while len(self._entries) > _WATCHED:
                self._entries.popitem(last=False)


class ReportingTrials:
    """A cache of trials after their last stored report. A request removes a trial while it stores the next report."""

    def __init__(self) -> None:
        self._trials: OrderedDict[int, ReportingTrial] = OrderedDict()
        self._lock = threading.Lock()

    def pop(self, trial_id: int) -> ReportingTrial | None:
        with self._lock:
            return self._trials.pop(trial_id, None)

    def store(self, trial: ReportingTrial) -> None:
        """Keep a trial, unless its summaries are large."""
        groups = trial.summaries.values()
        if sum(len(name) for group in groups for name in group) > _LONGEST_NAMES:
            return
        if any(entry["type"] != "number" for group in groups for entry in group.values()):
            return
        with self._lock:
            self._trials[trial.id] = trial
            while len(self._trials) > _REPORTING:
                self._trials.popitem(last=False)


class ExperimentMetricNames:
    """A cache of the metric names of experiments. The database may have more names, but never fewer."""

    def __init__(self) -> None:
        self._entries: OrderedDict[int, tuple[MetricNames, int]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def of(self, experiment_id: int) -> MetricNames:
        with self._lock:
            names, _ = self._entries.get(experiment_id, ({}, 0))
            return names

    def store(self, experiment_id: int, names: MetricNames) -> None:
        """Cache the names of an experiment; drop the oldest entries above the memory limit."""
        count, size = measure(names)
        size += count * _NAME_BYTES
        with self._lock:
            _, before = self._entries.pop(experiment_id, ({}, 0))
            self._entries[experiment_id] = (names, size)
            self._bytes += size - before
            while self._bytes > _NAMES_BYTES and len(self._entries) > 1:
                _, (_, dropped) = self._entries.popitem(last=False)
                self._bytes -= dropped


class _Queue:
    """The threads that want one experiment, first come first served."""

    def __init__(self, holder: int) -> None:
        self.holder = holder
        self.waiting: deque[tuple[int, threading.Lock]] = deque()


@dataclass(slots=True)
class DatabaseHealth:
    """Observations of this process about the database."""

    full_at: datetime | None = None  # the last time at which it had no room for a request's data
    wrote_at: datetime | None = None  # the last time at which a health check wrote


@dataclass(frozen=True, slots=True)
class MergedPools:
    """A configuration with the pools of the database at a revision, and the verifiers of their machines."""

    revision: int
    file_config: ClusterConfig
    config: ClusterConfig
    machines: Mapping[str, IdentityVerifier] | None


class ProcessMemory:
    """The caches and queues of a process. A transaction removes a search and stores it again after its commit."""

    def __init__(self) -> None:
        self._entries: OrderedDict[int, KeptSearch] = OrderedDict()
        self._queues: dict[int, _Queue] = {}
        self._experiments: dict[int, int] = {}
        self._owners: dict[int, Owned] = {}
        self._lock = threading.Lock()
        self.watched = WatchedSearches()
        self.reporting = ReportingTrials()
        self.metric_names = ExperimentMetricNames()
        self.reports: Batcher[MetricsReport, bool] = Batcher(self.turn)
        # One statement finds the callers of requests that arrive together.
        self.holders: Batcher[bytes, Holder | None] = Batcher()
        self.database_health = DatabaseHealth()
        self.search_costs_checked_at: datetime | None = None
        self.pools: MergedPools | None = None  # None: not read yet

    @contextmanager
    def turn(self, experiment_id: int) -> Iterator[None]:
        """Let the threads of this process queue here for an experiment, and not with a connection each on its row lock.

        The row lock still decides between processes."""
        if not self._join_queue(experiment_id):
            yield
            return
        try:
            yield
        finally:
            self._leave_queue(experiment_id)

    def _join_queue(self, experiment_id: int) -> bool:
        """Wait for this thread's turn; return False when it has its turn already."""
        thread_id = threading.get_ident()
        with self._lock:
            queue = self._queues.get(experiment_id)
            if queue is None:
                self._queues[experiment_id] = _Queue(thread_id)
                return True
            if queue.holder == thread_id:
                return False
            turn = threading.Lock()
            turn.acquire()
            queue.waiting.append((thread_id, turn))
        turn.acquire()  # released by the thread that leaves
        return True

    def _leave_queue(self, experiment_id: int) -> None:
        with self._lock:
            queue = self._queues[experiment_id]
            if queue.waiting:
                queue.holder, turn = queue.waiting.popleft()
                turn.release()
            else:
                del self._queues[experiment_id]

    def pop_search(self, experiment_id: int) -> KeptSearch | None:
        with self._lock:
            return self._entries.pop(experiment_id, None)

    def store_search(self, experiment_id: int, entry: KeptSearch) -> None:
        with self._lock:
            present = self._entries.get(experiment_id)
            if present is None or present.seq < entry.seq:
                self._entries[experiment_id] = entry
                self._entries.move_to_end(experiment_id)
            while len(self._entries) > _CAPACITY:
                self._entries.popitem(last=False)

    def experiment_of(self, trial_id: int) -> int | None:
        """Return the experiment that was remembered for a trial, which never changes."""
        return self._experiments.get(trial_id)

    def remember_trials(self, trial_ids: Sequence[int], experiment_id: int) -> None:
        with self._lock:
            if len(self._experiments) >= _TRIALS_KEPT:
                self._experiments.clear()
            self._experiments.update(dict.fromkeys(trial_ids, experiment_id))

    def owner_of(self, trial_id: int) -> Owned | None:
        """Return the remembered owner of a trial. No trial ever changes its owner."""
        return self._owners.get(trial_id)

    def remember_owners(self, owners: Mapping[int, Owned]) -> None:
        with self._lock:
            if len(self._owners) >= _TRIALS_KEPT:
                self._owners.clear()
            self._owners.update(owners)

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
