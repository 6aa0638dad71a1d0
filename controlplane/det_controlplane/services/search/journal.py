"""A search inside a transaction: folded up to the row's `seq`, appended to under the experiment's lock."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from det_controlplane.core import hparams, search
from det_controlplane.core.hparams import Space
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.experiments import experiments, searches
from det_controlplane.db.experiments.experiments import ExperimentRow
from det_controlplane.db.trials import trials
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Taken
from det_controlplane.services.memory import KeptSearch

# A cold process replays this many events, or half as many as there are trials: a snapshot grows with those.
SNAPSHOT_EVERY = 500
# A mean over all trials is not worth computing for each report.
PROGRESS_EVERY = timedelta(seconds=1)


class Journal:
    def __init__(self, ctx: Context, tx: Tx, experiment: ExperimentRow) -> None:
        self._ctx = ctx
        self._tx = tx
        self._experiment = experiment
        self._search: search.Search | None = None
        self._new: list[search.Event] = []
        self._closed = False
        self._decided = False  # by a model, since the latest snapshot
        self.begins = False  # the search was made in this transaction
        self.has_remote_events = False
        self._progress_at: datetime | None = None

    def validation(self, request_id: str, metrics: Mapping[str, Any]) -> search.Validated | None:
        """Return the event of a report with the metrics that the search reads, or None if it reads none.

        If one of them is missing, the event has other metrics too, so that the message can list them."""
        names = self._folded().metric_names
        if not names:
            return None
        missing = any(name not in metrics for name in names)
        others = sorted(metrics)[: search.LISTED_METRICS] if missing else ()
        reported_names = [name for name in (*names, *others) if name in metrics]
        return search.Validated(request_id, {name: metrics[name] for name in reported_names})

    def record(self, event: search.Event) -> tuple[search.Action, ...]:
        """Fold one event and keep it for the log."""
        folded = self._folded()
        self._new.append(event)
        actions = folded.fold(event)
        self._decided = self._decided or (bool(actions) and folded.method.has_model)
        self.has_remote_events = bool(folded.remote_events())
        self._closed = self._closed or any(isinstance(a, search.Shutdown) for a in actions)
        return actions

    def remote(self) -> search.RemoteSearch | None:
        """Return the search method if a program outside decides, else None."""
        method = self._folded().method
        return method if isinstance(method, search.RemoteSearch) else None

    def ending(self) -> search.Ending | None:
        """Return why the search ends before its last trial, or None."""
        return self._folded().ending

    def progress(self, now: datetime) -> float | None:
        """Return how far the search is; None when it is too early to look at all trials again."""
        folded = self._folded()
        if folded.method.progress() is not None:
            return folded.progress({})
        if self._progress_at is not None and now - self._progress_at < PROGRESS_EVERY:
            return None
        self._progress_at = now
        return folded.progress(trials.progress_of(self._tx, self._experiment.id))

    def write(self) -> None:
        """Append the recorded events. The guard can only fail if the row lock was forgotten."""
        row = self._experiment
        if self._new or self._closed:
            new = [e.to_json() for e in self._new]
            if self.begins:
                searches.begin(self._tx, row.id, new, self._closed)
            elif not searches.append(self._tx, row.id, row.seq, new, self._closed):
                raise Taken(f"experiment {row.id}: another process wrote event {row.seq + 1} first")
            self.written()
            self.begins = self._closed = False
        if self._search is not None and self.snapshot_due:
            self._snapshot(self._search)

    def written(self) -> None:
        """Note that another statement has appended the recorded events."""
        self._experiment.seq += len(self._new)
        self._new.clear()

    @property
    def snapshot_due(self) -> bool:
        """Return whether a process that starts later would replay too much, or a decision of a model.

        A model of a later version would decide differently, and it takes milliseconds for each decision."""
        if self._decided:
            return True
        replayed = self._experiment.seq + len(self._new) - self._experiment.snapshot_seq
        return replayed >= max(SNAPSHOT_EVERY, self._folded().requested // 2)

    def write_with_snapshot(self) -> None:
        """Write a snapshot too, so that every process reads the search again instead of its cached state."""
        self.write()
        self._snapshot(self._folded())

    def _snapshot(self, folded: search.Search) -> None:
        row = self._experiment
        searches.save_snapshot(self._tx, row.id, row.seq, folded.snapshot())
        row.snapshot_seq = row.seq
        self._decided = False

    def keep(self) -> None:
        """Keep the search after the commit for the next transaction."""
        if self._search is not None:
            entry = KeptSearch(self._experiment.seq, self._search, self._progress_at)
            self._ctx.memory.store_search(self._experiment.id, entry)

    def _folded(self) -> search.Search:
        if self._search is None:
            self._search = self._load()
        return self._search

    def _load(self) -> search.Search:
        row = self._experiment
        cached = self._ctx.memory.pop_search(row.id)
        if cached is not None and row.snapshot_seq <= cached.seq <= row.seq:
            folded, seq, self._progress_at = cached.search, cached.seq, cached.progress_at
        else:
            folded, seq = self._restore(), row.snapshot_seq
        if seq < row.seq:
            for event in searches.events(self._tx, row.id, seq, row.seq):
                folded.fold(search.event_from_json(event))
        return folded

    def _restore(self) -> search.Search:
        row = self._experiment
        config = experiments.config(self._tx, row.id)
        space = parse_space(config)
        if row.snapshot_seq:
            saved, _ = searches.snapshot(self._tx, row.id)
            return search.restore(config["searcher"], space, row.seed, saved)
        return search.new(config["searcher"], space, row.seed)


def parse_space(config: Mapping[str, Any]) -> Space:
    """Read the hyperparameter space of a stored configuration, which was validated when it was stored."""
    space, problems = hparams.parse(config.get("hyperparameters") or {})
    if problems:
        raise ValueError(f"stored hyperparameters are invalid: {problems[0]}")
    return space
